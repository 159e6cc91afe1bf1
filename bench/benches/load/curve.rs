//! Curves over the number of Machines, as SVG.

use std::fmt::Write as _;

use crate::run::Figures;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 200.0;
const MARGIN: f64 = 50.0;

/// One curve.
type Curve = (&'static str, fn(&Figures) -> f64);

const CURVES: [Curve; 4] = [
    ("created to VirtualMachine, p99 [ms]", |it| {
        it.created_to_vm.p99_ms as f64
    }),
    ("created to Running, p99 [ms]", |it| {
        it.created_to_running.p99_ms as f64
    }),
    ("memory, steady [MiB]", |it| it.steady_mib),
    ("CPU from creation to Running [ms per Machine]", |it| {
        it.phases
            .first()
            .map_or(0.0, |phase| phase.cpu_ms_per_machine)
    }),
];

/// A picture with one diagram for each curve; both axes start at zero.
pub fn svg(runs: &[Figures]) -> String {
    let columns = 2.0;
    let width = columns * (WIDTH + 2.0 * MARGIN);
    let height = columns * (HEIGHT + 2.0 * MARGIN);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (place, (title, value)) in CURVES.iter().enumerate() {
        let x = (place % 2) as f64 * (WIDTH + 2.0 * MARGIN) + MARGIN;
        let y = (place / 2) as f64 * (HEIGHT + 2.0 * MARGIN) + MARGIN;
        let points: Vec<(f64, f64)> = runs
            .iter()
            .map(|run| (run.machines as f64, value(run)))
            .collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            picture,
            "<g transform=\"translate({x} {y})\">{}</g>",
            diagram(title, &points)
        );
    }
    picture.push_str("</svg>\n");
    picture
}

fn diagram(title: &str, points: &[(f64, f64)]) -> String {
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let (right, top) = (most(|it| it.0), most(|it| it.1));
    let placed = |(x, y): &(f64, f64)| (x / right * WIDTH, HEIGHT - y / top * HEIGHT);
    let mut drawn = format!(
        "<text y=\"-12\" font-weight=\"bold\">{title}</text>\
         <path d=\"M0 0V{HEIGHT}H{WIDTH}\" fill=\"none\" stroke=\"#666\"/>"
    );
    let line: Vec<String> = points
        .iter()
        .map(placed)
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let _ = write!(
        drawn,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1a6\" stroke-width=\"2\"/>",
        line.join(" ")
    );
    for point in points {
        let (x, y) = placed(point);
        let _ = write!(
            drawn,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#1a6\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.1}</text>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y - 6.0,
            point.1,
            HEIGHT + 16.0,
            point.0
        );
    }
    drawn
}

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use rstest::rstest;
use serde_json::{Value, json};
use tracing::{debug, error, info, trace, warn};

use super::*;

const PROGRAM: Program = Program {
    crates: &["kubevirt_operator", "runtime", "plan", "api"],
    leading_fields: &["controller", "machine", "namespace", "phase"],
};

/// The lines that were written.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).unwrap()
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(level: Level, format: Format, act: impl FnOnce()) -> String {
    let output = Output::default();
    let writer = output.clone();
    let clock = || "2024-01-01T12:00:00Z".parse().unwrap();
    let subscriber = subscriber(PROGRAM, level, format, move || writer.clone(), clock);
    tracing::subscriber::with_default(subscriber, act);
    output.text()
}

#[test]
fn a_line_has_the_fields_and_order_of_the_specification() {
    let line = logged(Level::Info, Format::Json, || {
        info!(
            message = "Creating VirtualMachine resource",
            phase = "Creating",
            namespace = "default",
            machine = "test-vm",
            controller = "Machine",
        );
    });
    assert_eq!(
        line,
        "{\"timestamp\":\"2024-01-01T12:00:00.000Z\",\"level\":\"info\",\"controller\":\"Machine\",\
         \"machine\":\"test-vm\",\"namespace\":\"default\",\"phase\":\"Creating\",\
         \"message\":\"Creating VirtualMachine resource\"}\n"
    );
}

#[test]
fn absent_fields_are_left_out_and_others_follow_with_their_types() {
    let line = logged(Level::Info, Format::Json, || {
        let cause = io::Error::other("connection refused");
        error!(
            zone = %"a",
            attempt = 3,
            ratio = 0.5,
            retry = true,
            error = &cause as &(dyn std::error::Error + 'static),
            level = "mine",
            absent = Option::<&str>::None,
            "Cannot reach the API server at {}",
            "https://10.0.0.1"
        );
    });
    assert_eq!(
        line,
        "{\"timestamp\":\"2024-01-01T12:00:00.000Z\",\"level\":\"error\",\
         \"message\":\"Cannot reach the API server at https://10.0.0.1\",\"attempt\":3,\
         \"error\":\"connection refused\",\"ratio\":0.5,\"retry\":true,\"zone\":\"a\"}\n"
    );
}

#[test]
fn an_error_is_logged_with_each_of_its_causes_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot watch")]
    struct Outer(#[source] Middle);
    #[derive(Debug, thiserror::Error)]
    #[error("request failed: {0}")]
    struct Middle(#[source] io::Error);

    let cause = Outer(Middle(io::Error::other("timed out")));
    let line = logged(Level::Info, Format::Json, || {
        warn!(error = &cause as &(dyn std::error::Error + 'static));
    });
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        value["error"],
        json!("cannot watch: request failed: timed out")
    );
}

#[rstest]
#[case(Format::Json)]
#[case(Format::Text)]
fn an_event_is_one_line_whatever_its_values_contain(#[case] format: Format) {
    let nasty = "a\nb\r\x1b[31m\u{85}\u{2028}\u{2029}\0\"{}";
    let text = logged(Level::Info, format, || {
        info!(machine = nasty, detail = ?nasty, shown = %nasty, "{nasty}");
    });
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    let line = text.strip_suffix('\n').unwrap();
    assert!(
        !line.contains(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}'),
        "{line:?}"
    );
    if format == Format::Json {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["machine"], json!(nasty));
        assert_eq!(value["message"], json!(nasty));
    }
}

#[test]
fn a_huge_value_is_cut_between_characters() {
    let line = logged(Level::Info, Format::Json, || {
        info!(machine = "ä".repeat(5000), "x");
    });
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["machine"], json!(format!("{}…", "ä".repeat(2048))));
}

#[test]
fn text_format_puts_the_message_first() {
    let line = logged(Level::Info, Format::Text, || {
        warn!(
            reason = "no room",
            namespace = "default",
            machine = "web-1",
            tries = 2,
            "Cannot start"
        );
    });
    assert_eq!(
        line,
        "2024-01-01T12:00:00.000Z WARN  Cannot start machine=web-1 namespace=default \
         reason=\"no room\" tries=2\n"
    );
}

#[rstest]
#[case(Level::Error, 1, 1)]
#[case(Level::Warn, 2, 2)]
#[case(Level::Info, 3, 2)]
#[case(Level::Debug, 4, 2)]
#[case(Level::Trace, 5, 5)]
fn libraries_log_warnings_and_errors_only(
    #[case] level: Level,
    #[case] ours: usize,
    #[case] libraries: usize,
) {
    let text = logged(level, Format::Json, || {
        error!("");
        warn!("");
        info!("");
        debug!("");
        trace!("");
    });
    assert_eq!(text.lines().count(), ours);
    let text = logged(level, Format::Json, || {
        error!(target: "hyper::proto", "");
        warn!(target: "hyper::proto", "");
        info!(target: "hyper::proto", "");
        debug!(target: "hyper::proto", "");
        trace!(target: "hyper::proto", "");
    });
    assert_eq!(text.lines().count(), libraries);
}

#[test]
fn bodies_that_the_client_cannot_decode_are_never_logged() {
    let text = logged(Level::Trace, Format::Json, || {
        warn!(target: "kube_client::client", "{{\"data\":{{\"password\":\"aHVudGVyMg==\"}}}}");
        trace!(target: "kube_client::client", "Status from {{}}");
        warn!(target: "kube_client::client::tls", "keeping stale roots");
    });
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("stale roots"));
}

#[rstest]
#[case("INFO", Ok(Level::Info))]
#[case("trace", Ok(Level::Trace))]
#[case("warning", Err("must be one of error, warn, info, debug, trace"))]
fn levels_are_parsed_by_name(#[case] text: &str, #[case] expected: Result<Level, &str>) {
    let read: Result<Level, _> = text.parse();
    assert_eq!(
        read.map_err(|error| error.to_string()),
        expected.map_err(str::to_owned)
    );
}

#[test]
fn displayed_names_parse_to_the_same_value() {
    for level in [
        Level::Error,
        Level::Warn,
        Level::Info,
        Level::Debug,
        Level::Trace,
    ] {
        assert_eq!(level.to_string().parse(), Ok(level));
    }
    for format in [Format::Json, Format::Text] {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
}

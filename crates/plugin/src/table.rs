//! Tables as kubectl prints them: columns separated by three spaces, without trailing white space.

use crate::session::printable;

/// Rows below a heading.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Width of each column, at least.
    widths: Vec<usize>,
}

const GAP: usize = 3;

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        let mut table = Self {
            rows: Vec::new(),
            widths: vec![0; heading.len()],
        };
        let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
        table.add(&heading);
        table
    }

    /// A table without a heading.
    pub(crate) fn bare(columns: usize) -> Self {
        Self {
            rows: Vec::new(),
            widths: vec![0; columns],
        }
    }

    pub(crate) fn add(&mut self, row: &[String]) {
        let row: Vec<String> = row.iter().map(|cell| printable(cell)).collect();
        for (width, cell) in self.widths.iter_mut().zip(&row) {
            *width = (*width).max(cell.chars().count());
        }
        self.rows.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, and forgets them; later lines are aligned with them.
    pub(crate) fn take(&mut self) -> String {
        let mut text = String::new();
        for row in std::mem::take(&mut self.rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&self.widths) {
                line.push_str(cell);
                let padding = width + GAP - cell.chars().count();
                line.extend(std::iter::repeat_n(' ', padding));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NAME", "AGE"]);
        table.add(&["a-long-name".to_owned(), "1d".to_owned()]);
        assert_eq!(table.take(), "NAME          AGE\na-long-name   1d\n");
        table.add(&["web".to_owned(), "2s\x1b[31m".to_owned()]);
        assert_eq!(table.take(), "web           2s\\u{1b}[31m\n");
    }
}

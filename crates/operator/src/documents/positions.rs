//! Lines and columns of the fields of documents, for programs that show messages beside the text.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser};

use super::{Origin, Part, parse_part, split};

/// Place in a file, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// Positions of the fields of a file, by the number of the document and the path of the field.
#[derive(Debug, Default)]
pub struct Positions(BTreeMap<usize, BTreeMap<String, Position>>);

impl Positions {
    /// Positions in a text that [`super::parse`] reads.
    pub fn of(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut documents = BTreeMap::new();
        let mut count = 0;
        for (index, part) in split(text).iter().enumerate() {
            let origin = Origin {
                file: "".into(),
                document: count + 1,
                item: None,
            };
            // An unreadable part counts as one document.
            let parsed = parse_part(part, &origin).map_or(1, |values| values.len());
            let fields = fields(part, index > 0);
            // JSON documents that follow each other without a marker have the position of the first.
            for document in count + 1..=count + parsed {
                documents.insert(document, fields.clone());
            }
            count += parsed;
        }
        Self(documents)
    }

    /// Position of a field; of the nearest field above it, if the document does not have it.
    pub fn find(&self, origin: &Origin, path: &str) -> Option<Position> {
        let fields = self.0.get(&origin.document)?;
        let path = match (origin.item, path) {
            (None, path) => path.to_owned(),
            (Some(item), "") => format!("items[{item}]"),
            (Some(item), path) => format!("items[{item}].{path}"),
        };
        let ends = path.match_indices(['.', '[']).map(|(at, _)| at);
        let mut ancestors: Vec<usize> = ends.chain([0, path.len()]).collect();
        ancestors.sort_unstable();
        let mut ancestors = ancestors.into_iter().rev();
        ancestors.find_map(|end| fields.get(path.get(..end)?).copied())
    }
}

/// An open collection.
enum Level {
    /// With the number of the next item.
    Sequence(usize),
    /// With the path of the entry whose value comes next; none if a key comes next.
    Mapping(Option<String>),
}

fn fields(part: &Part<'_>, has_marker: bool) -> BTreeMap<String, Position> {
    let mut fields = BTreeMap::new();
    let mut levels: Vec<(String, Level)> = Vec::new();
    let options = granit_parser::options! { emit_comments: false };
    for event in Parser::new_from_str_with_options(part.text, options) {
        // Up to the first error, which is reported elsewhere.
        let Ok((event, span)) = event else { break };
        let line = span.start.line().max(1);
        let is_behind_marker = has_marker && line == 1;
        let position = Position {
            line: part.first_line + line - 1,
            column: span.start.col() + 1 + if is_behind_marker { "---".len() } else { 0 },
        };
        let is_value = matches!(
            event,
            Event::Scalar(..)
                | Event::Alias(..)
                | Event::SequenceStart(..)
                | Event::MappingStart(..)
        );
        if is_value
            && let Event::Scalar(text, ..) = &event
            && let Some((path, Level::Mapping(entry @ None))) = levels.last_mut()
        {
            let path = if path.is_empty() {
                text.to_string()
            } else {
                format!("{path}.{text}")
            };
            fields.entry(path.clone()).or_insert(position);
            *entry = Some(path);
            continue;
        }
        let path = match levels.last_mut() {
            _ if !is_value => String::new(),
            None => {
                fields.entry(String::new()).or_insert(position);
                String::new()
            }
            Some((path, Level::Sequence(next))) => {
                let path = format!("{path}[{next}]");
                *next += 1;
                fields.entry(path.clone()).or_insert(position);
                path
            }
            // A key that is no scalar has no path.
            Some((_, Level::Mapping(entry))) => entry.take().unwrap_or_default(),
        };
        match event {
            Event::SequenceStart(..) => levels.push((path, Level::Sequence(0))),
            Event::MappingStart(..) => levels.push((path, Level::Mapping(None))),
            Event::SequenceEnd | Event::MappingEnd => {
                levels.pop();
            }
            _ => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, document: usize, item: Option<usize>, path: &str) -> (usize, usize) {
        let origin = Origin {
            file: "file".into(),
            document,
            item,
        };
        let found = Positions::of(text).find(&origin, path).unwrap();
        (found.line, found.column)
    }

    const TEXT: &str = "\
# comment
kind: Machine
spec:
  disks:
    - name: root
      size: 1Gi
    - {name: data, size: 2Gi}
---
---
kind: Other
spec: {memory: 1Gi}
--- {kind: Inline}
";

    #[test]
    fn fields_have_the_position_of_their_key() {
        assert_eq!(at(TEXT, 1, None, "kind"), (2, 1));
        assert_eq!(at(TEXT, 1, None, "spec.disks"), (4, 3));
        assert_eq!(at(TEXT, 1, None, "spec.disks[0]"), (5, 7));
        assert_eq!(at(TEXT, 1, None, "spec.disks[0].size"), (6, 7));
        assert_eq!(at(TEXT, 1, None, "spec.disks[1].size"), (7, 20));
    }

    #[test]
    fn empty_documents_do_not_count() {
        assert_eq!(at(TEXT, 2, None, "spec.memory"), (11, 8));
        assert_eq!(at(TEXT, 3, None, "kind"), (12, 6));
    }

    #[test]
    fn an_absent_field_has_the_position_of_the_nearest_above() {
        assert_eq!(at(TEXT, 1, None, "spec.disks[0].source.http.url"), (5, 7));
        assert_eq!(at(TEXT, 1, None, "spec.cpu.cores"), (3, 1));
        assert_eq!(at(TEXT, 1, None, "metadata.name"), (2, 1));
        assert_eq!(at(TEXT, 1, None, ""), (2, 1));
    }

    #[test]
    fn items_of_a_list_are_documents_of_their_own() {
        let list = "kind: List\nitems:\n- kind: A\n- kind: B\n  spec: {x: 1}\n";
        assert_eq!(at(list, 1, Some(1), "spec.x"), (5, 10));
        assert_eq!(at(list, 1, Some(0), ""), (3, 3));
    }

    #[test]
    fn documents_after_an_unreadable_one_keep_their_number() {
        assert_eq!(at("a: [\n---\nb: 1\n", 2, None, "b"), (3, 1));
    }
}

//! Label and field selectors in query form.

use std::collections::BTreeSet;

/// All requirements must match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq)]
enum Operator {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl Selector {
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The error is kube-apiserver's text.
    pub fn labels(text: &str) -> Result<Self, String> {
        Parser::new(text)
            .selector()
            .map(|requirements| Self { requirements })
    }

    /// Such as `metadata.name=x,status.phase!=Running`.
    pub fn fields(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for term in split_unescaped(text) {
            if term.is_empty() {
                continue;
            }
            let (key, value, equal) = split_operator(&term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let values = BTreeSet::from([unescape(value).ok_or_else(|| {
                format!("invalid field selector: invalid escape sequence: {value}")
            })?]);
            requirements.push(Requirement {
                key: key.to_owned(),
                operator: if equal {
                    Operator::In(values)
                } else {
                    Operator::NotIn(values)
                },
            });
        }
        Ok(Self { requirements })
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|one| one.key.as_str())
    }

    /// `lookup` returns the value of a key.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<std::borrow::Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = lookup(&requirement.key);
            match (&requirement.operator, value) {
                (Operator::Exists, value) => value.is_some(),
                (Operator::Absent, value) => value.is_none(),
                (Operator::In(values), Some(value)) => values.contains(value.as_ref()),
                (Operator::NotIn(values), Some(value)) => !values.contains(value.as_ref()),
                (Operator::NotIn(_), None) => true,
                (Operator::Greater(bound), Some(value)) => {
                    value.parse::<i64>().is_ok_and(|value| value > *bound)
                }
                (Operator::Less(bound), Some(value)) => {
                    value.parse::<i64>().is_ok_and(|value| value < *bound)
                }
                (Operator::In(_) | Operator::Greater(_) | Operator::Less(_), None) => false,
            }
        })
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for letter in text.chars() {
        if letter == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = letter == '\\' && !escaped;
        if let Some(term) = terms.last_mut() {
            term.push(letter);
        }
    }
    terms
}

fn split_operator(term: &str) -> Option<(&str, &str, bool)> {
    let at = term.find(['=', '!'])?;
    let (key, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((key, value, false));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((key, value, true))
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            match letters.next()? {
                escaped @ ('\\' | ',' | '=') => plain.push(escaped),
                _ => return None,
            }
        } else {
            plain.push(letter);
        }
    }
    Some(plain)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

const SYMBOLS: [&str; 9] = ["!=", "==", "=", "!", "(", ")", ",", ">", "<"];

impl Parser {
    fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                tokens.push(Token::Symbol(symbol));
                rest = &rest[symbol.len()..];
            } else {
                let end = rest
                    .find(|letter: char| letter.is_whitespace() || "!=(),<>".contains(letter))
                    .unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].to_owned()));
                rest = &rest[end..];
            }
            rest = rest.trim_start();
        }
        Self {
            tokens,
            position: 0,
        }
    }

    fn peek(&self) -> Token {
        self.tokens
            .get(self.position)
            .cloned()
            .unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Symbol("!") => {
                    requirements.push(
                        self.requirement()
                            .map_err(|why| format!("unable to parse requirement: {why}"))?,
                    );
                    match self.next() {
                        Token::End => return Ok(requirements),
                        Token::Symbol(",") => match self.peek() {
                            Token::Word(_) | Token::Symbol("!") => {}
                            token => {
                                return Err(format!(
                                    "found '{}', expected: identifier after ','",
                                    token.text()
                                ));
                            }
                        },
                        token => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                token.text()
                            ));
                        }
                    }
                }
                token @ Token::Symbol(_) => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        token.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            token => {
                return Err(format!("found '{}', expected: identifier", token.text()));
            }
        };
        check_key(&key)?;
        if absent {
            return Ok(Requirement {
                key,
                operator: Operator::Absent,
            });
        }
        let operator = match self.peek() {
            Token::End | Token::Symbol(",") => Operator::Exists,
            Token::Symbol("=" | "==") => {
                self.next();
                Operator::In(self.one_value(&key)?)
            }
            Token::Symbol("!=") => {
                self.next();
                Operator::NotIn(self.one_value(&key)?)
            }
            Token::Symbol(sign @ (">" | "<")) => {
                self.next();
                let values = self.one_value(&key)?;
                let bound = values
                    .iter()
                    .next()
                    .and_then(|value| value.parse().ok())
                    .ok_or_else(|| {
                        "values[0]: Invalid value: for 'Gt', 'Lt' operators, the value must be an integer".to_owned()
                    })?;
                if sign == ">" {
                    Operator::Greater(bound)
                } else {
                    Operator::Less(bound)
                }
            }
            Token::Word(word) if word == "in" => {
                self.next();
                Operator::In(self.values(&key)?)
            }
            Token::Word(word) if word == "notin" => {
                self.next();
                Operator::NotIn(self.values(&key)?)
            }
            token => {
                return Err(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    token.text()
                ));
            }
        };
        Ok(Requirement { key, operator })
    }

    fn one_value(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        let value = match self.peek() {
            Token::End | Token::Symbol(",") => String::new(),
            Token::Word(word) => {
                self.next();
                word
            }
            token @ Token::Symbol(_) => {
                return Err(format!("found '{}', expected: identifier", token.text()));
            }
        };
        check_value(key, 0, &value)?;
        Ok(BTreeSet::from([value]))
    }

    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            token => return Err(format!("found '{}' expected: '('", token.text())),
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Word(word) => {
                    self.next();
                    word
                }
                _ => String::new(),
            };
            check_value(key, values.len(), &value)?;
            values.insert(value);
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                token => {
                    return Err(format!("found '{}', expected: ',' or ')'", token.text()));
                }
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    const RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let name = match key.split_once('/') {
        Some((_, name)) => name,
        None => key,
    };
    if is_label_word(name) {
        Ok(())
    } else {
        Err(format!("<nil>: Invalid value: {key:?}: {RULE}"))
    }
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), String> {
    const RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    if value.is_empty() || (is_label_word(value) && value.len() <= 63) {
        Ok(())
    } else {
        Err(format!(
            "values[{index}][{key}]: Invalid value: {value:?}: {RULE}"
        ))
    }
}

fn is_label_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use rstest::rstest;

    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        Selector::labels(selector).unwrap().matches(|key| {
            labels
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| Cow::Borrowed(*value))
        })
    }

    #[rstest]
    #[case("", true)]
    #[case("app=web", true)]
    #[case("app == web,tier", true)]
    #[case("app!=web", false)]
    #[case("missing!=web", true)]
    #[case("!tier", false)]
    #[case("!missing", true)]
    #[case("app in (db, web)", true)]
    #[case("app notin (db,web)", false)]
    #[case("n>4", true)]
    #[case("n<4", false)]
    #[case("example.com/part=x", true)]
    #[case("app=", false)]
    fn label_selectors(#[case] selector: &str, #[case] selected: bool) {
        let labels = [
            ("app", "web"),
            ("tier", "1"),
            ("n", "5"),
            ("example.com/part", "x"),
        ];
        assert_eq!(selects(selector, &labels), selected, "{selector}");
    }

    #[rstest]
    #[case("a=b=c")]
    #[case("a in b")]
    #[case("a in (b")]
    #[case(",")]
    #[case("a,,b")]
    #[case("a,")]
    #[case("-a=b")]
    #[case("a=b c")]
    fn broken_label_selectors_are_refused(#[case] selector: &str) {
        assert!(Selector::labels(selector).is_err());
    }

    #[test]
    fn field_selectors_know_escapes_and_both_signs() {
        let selector = Selector::fields(r"metadata.name=a\,b,status.phase!=Running").unwrap();
        assert!(selector.matches(|key| match key {
            "metadata.name" => Some(Cow::Borrowed("a,b")),
            _ => Some(Cow::Borrowed("Pending")),
        }));
        assert!(Selector::fields("nonsense").is_err());
    }
}

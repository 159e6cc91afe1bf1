//! Literals of lists, maps and messages.

use super::{Parsed, Parser, lexer::TokenKind};
use crate::ast::{Element, Entry, Expr, Field, Kind};

impl Parser<'_, '_, '_> {
    /// The full name, if a message literal begins with the name that was read.
    pub(super) fn message_name(&mut self, first: &str) -> Option<String> {
        let mut name = first.to_owned();
        let mut ahead = 0;
        while self.peek_symbol(ahead) == "." {
            let part = self.tokens.get(self.next + ahead + 1)?;
            if part.kind != TokenKind::Identifier {
                return None;
            }
            name.push('.');
            name.push_str(part.text);
            ahead += 2;
        }
        if self.peek_symbol(ahead) != "{" {
            return None;
        }
        self.next += ahead;
        Some(name)
    }

    pub(super) fn message(&mut self, name: &str, has_dot: bool) -> Parsed<Expr> {
        let open = self.expect("{")?;
        let id = self.source.new_id(Some(open.position));
        let mut fields = Vec::new();
        while self.peek_symbol(0) != "}" {
            if self.take_symbol(",").is_some() {
                break;
            }
            let is_optional = self.take_symbol("?").is_some();
            let field = self.name()?;
            let colon = self.expect(":")?;
            let field_id = self.source.new_id(Some(colon.position));
            let value = self.expression()?;
            fields.push(Field {
                id: field_id,
                name: field.text.to_owned(),
                value,
                is_optional,
            });
            if self.take_symbol(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        let name = if has_dot {
            format!(".{name}")
        } else {
            name.to_owned()
        };
        Ok(Expr {
            id,
            kind: Kind::Message { name, fields },
        })
    }

    pub(super) fn list(&mut self) -> Parsed<Expr> {
        let open = self.expect("[")?;
        let id = self.source.new_id(Some(open.position));
        let mut elements = Vec::new();
        while self.peek_symbol(0) != "]" {
            if self.take_symbol(",").is_some() {
                break;
            }
            let is_optional = self.take_symbol("?").is_some();
            let value = self.expression()?;
            elements.push(Element { value, is_optional });
            if self.take_symbol(",").is_none() {
                break;
            }
        }
        self.expect("]")?;
        Ok(Expr {
            id,
            kind: Kind::List(elements),
        })
    }

    pub(super) fn map(&mut self) -> Parsed<Expr> {
        let open = self.expect("{")?;
        let id = self.source.new_id(Some(open.position));
        let mut entries = Vec::new();
        while self.peek_symbol(0) != "}" {
            if self.take_symbol(",").is_some() {
                break;
            }
            let is_optional = self.take_symbol("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(Entry {
                key,
                value,
                is_optional,
            });
            if self.take_symbol(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        Ok(Expr {
            id,
            kind: Kind::Map(entries),
        })
    }
}

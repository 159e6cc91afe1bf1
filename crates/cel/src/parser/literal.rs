//! Literals of numbers, strings and bytes.

use super::{Failure, Parsed, Parser, lexer::TokenKind, unescape};
use crate::ast::{Expr, Kind, Literal};

impl Parser<'_, '_, '_> {
    pub(super) fn literal(&mut self) -> Parsed<Expr> {
        let first = self.peek();
        let sign = if self.take_symbol("-").is_some() {
            "-"
        } else {
            ""
        };
        let token = self.take();
        let literal = match token.kind {
            TokenKind::Int => {
                let (digits, radix) = radix(token.text);
                match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
                    Ok(number) => Literal::Int(number),
                    Err(_) => return Ok(self.problem(first.position, "invalid int literal")),
                }
            }
            TokenKind::Uint => {
                let (digits, radix) = radix(token.text.trim_end_matches(['u', 'U']));
                match u64::from_str_radix(digits, radix) {
                    Ok(number) => Literal::Uint(number),
                    Err(_) => return Ok(self.problem(first.position, "invalid uint literal")),
                }
            }
            TokenKind::Double => match format!("{sign}{}", token.text).parse::<f64>() {
                Ok(number) if number.is_finite() => Literal::Double(number),
                _ => return Ok(self.problem(first.position, "invalid double literal")),
            },
            TokenKind::String => match unescape::unescape(token.text, false) {
                Ok(value) => Literal::String(String::from_utf8_lossy(&value).into_owned()),
                Err(error) => return Ok(self.problem(first.position, error)),
            },
            TokenKind::Bytes => match unescape::unescape(token.text.get(1..).unwrap_or(""), true) {
                Ok(value) => Literal::Bytes(value),
                Err(error) => return Ok(self.problem(first.position, error)),
            },
            TokenKind::Symbol | TokenKind::Identifier | TokenKind::End => {
                return Err(Failure::Syntax);
            }
        };
        Ok(self.node(first.position, Kind::Literal(literal)))
    }
}

fn radix(text: &str) -> (&str, u32) {
    match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    }
}

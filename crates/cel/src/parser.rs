//! Parser of expressions.
//!
//! Sources with errors in their syntax are given to the parser of the `cel` crate, whose generated
//! grammar words them as kube-apiserver's does.

mod aggregates;
mod lexer;
mod literal;
mod macros;
mod unescape;

use lexer::{Token, TokenKind, tokens};

use crate::{
    ast::{Expr, Id, Kind, Literal},
    source::Source,
};

/// Levels of nesting, and links of a chain of selections, calls or operators.
const MAX_DEPTH: usize = 250;
/// Characters of a source.
const MAX_LENGTH: usize = 100_000;

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Binary operators of one precedence, from the weakest.
const OPERATORS: [&[(&str, &str)]; 3] = [
    &[
        ("<", "_<_"),
        ("<=", "_<=_"),
        (">=", "_>=_"),
        (">", "_>_"),
        ("==", "_==_"),
        ("!=", "_!=_"),
        ("in", "@in"),
    ],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// Parses a source. Errors are added to it; an expression with errors must not be used.
pub(crate) fn parse(source: &mut Source<'_>, text: &str) -> Expr {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        source.error_at(
            None,
            format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"),
        );
        return invalid(source);
    }
    let parsed = tokens(text).ok_or(Failure::Syntax).and_then(|tokens| {
        let mut parser = Parser {
            source,
            tokens,
            next: 0,
            depth: 0,
        };
        let expression = parser.expression()?;
        parser.expect_end()?;
        Ok(expression)
    });
    match parsed {
        Ok(expression) => expression,
        Err(Failure::TooDeep) => {
            source.error_at(
                None,
                format!("expression recursion limit exceeded: {MAX_DEPTH}"),
            );
            invalid(source)
        }
        Err(Failure::Syntax) => {
            report_syntax(source, text);
            invalid(source)
        }
    }
}

fn invalid(source: &mut Source<'_>) -> Expr {
    Expr {
        id: source.new_id(None),
        kind: Kind::Invalid,
    }
}

/// Reports the errors in the words of the grammar.
fn report_syntax(source: &mut Source<'_>, text: &str) {
    let parser = antlr_cel::parser::Parser::new().enable_optional_syntax(true);
    let errors = match parser.parse(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.errors,
    };
    let known = source.has_errors();
    for error in errors {
        if error.msg.starts_with("Syntax error") {
            let (line, column) = error.pos;
            let at = |place: isize| i64::try_from(place).unwrap_or(1);
            source.error_in_line(at(line), at(column), error.msg);
        }
    }
    if !known && !source.has_errors() {
        source.error_at(Some(0), "Syntax error: the expression is malformed");
    }
}

enum Failure {
    Syntax,
    TooDeep,
}

type Parsed<T> = Result<T, Failure>;

struct Parser<'p, 's, 't> {
    source: &'p mut Source<'s>,
    tokens: Vec<Token<'t>>,
    next: usize,
    depth: usize,
}

impl<'t> Parser<'_, '_, 't> {
    fn peek(&self) -> Token<'t> {
        self.tokens
            .get(self.next)
            .or(self.tokens.last())
            .copied()
            .unwrap_or(Token {
                kind: TokenKind::End,
                text: "",
                position: 0,
            })
    }

    fn peek_symbol(&self, ahead: usize) -> &'t str {
        match self.tokens.get(self.next + ahead) {
            Some(token) if token.kind == TokenKind::Symbol => token.text,
            _ => "",
        }
    }

    fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn take_symbol(&mut self, symbol: &str) -> Option<Token<'t>> {
        (self.peek_symbol(0) == symbol).then(|| self.take())
    }

    fn expect(&mut self, symbol: &str) -> Parsed<Token<'t>> {
        self.take_symbol(symbol).ok_or(Failure::Syntax)
    }

    fn expect_end(&self) -> Parsed<()> {
        match self.peek().kind {
            TokenKind::End => Ok(()),
            _ => Err(Failure::Syntax),
        }
    }

    /// A name; words of the grammar are none.
    fn name(&mut self) -> Parsed<Token<'t>> {
        let token = self.take();
        let is_word = matches!(token.text, "in" | "true" | "false" | "null");
        match token.kind {
            TokenKind::Identifier if !is_word => Ok(token),
            _ => Err(Failure::Syntax),
        }
    }

    fn node(&mut self, position: usize, kind: Kind) -> Expr {
        Expr {
            id: self.source.new_id(Some(position)),
            kind,
        }
    }

    fn problem(&mut self, position: usize, message: impl Into<String>) -> Expr {
        self.source.error_at(Some(position), message);
        self.node(position, Kind::Invalid)
    }

    fn expression(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Failure::TooDeep);
        }
        let condition = self.logical("||", "_||_")?;
        let expression = if let Some(operator) = self.take_symbol("?") {
            let id = self.source.new_id(Some(operator.position));
            let yes = self.logical("||", "_||_")?;
            self.expect(":")?;
            let no = self.expression()?;
            call(id, "_?_:_", vec![condition, yes, no])
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expression)
    }

    /// Terms of `||` or `&&`, as a balanced tree.
    fn logical(&mut self, symbol: &str, function: &str) -> Parsed<Expr> {
        let mut terms = vec![self.term(symbol)?];
        let mut operators = Vec::new();
        while let Some(operator) = self.take_symbol(symbol) {
            let term = self.term(symbol)?;
            operators.push(self.source.new_id(Some(operator.position)));
            terms.push(term);
        }
        Ok(balanced(function, &mut terms.into_iter(), &operators))
    }

    fn term(&mut self, symbol: &str) -> Parsed<Expr> {
        match symbol {
            "||" => self.logical("&&", "_&&_"),
            _ => self.binary(0),
        }
    }

    fn binary(&mut self, precedence: usize) -> Parsed<Expr> {
        let Some(operators) = OPERATORS.get(precedence) else {
            return self.unary();
        };
        let mut left = self.binary(precedence + 1)?;
        let mut links = 0;
        loop {
            let token = self.peek();
            let is_operator = token.kind == TokenKind::Symbol || token.text == "in";
            let found = operators.iter().find(|(symbol, _)| *symbol == token.text);
            let Some((_, function)) = found.filter(|_| is_operator) else {
                return Ok(left);
            };
            links += 1;
            if links > MAX_DEPTH {
                return Err(Failure::TooDeep);
            }
            self.take();
            let id = self.source.new_id(Some(token.position));
            let right = self.binary(precedence + 1)?;
            left = call(id, function, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let first = self.peek();
        let (symbol, function) = match self.peek_symbol(0) {
            "!" => ("!", "!_"),
            // The sign of a literal belongs to it.
            "-" if self.is_negative_literal() => return self.member(),
            "-" => ("-", "-_"),
            _ => return self.member(),
        };
        let mut count: usize = 0;
        while self.peek_symbol(0) == symbol && !(count > 0 && self.is_negative_literal()) {
            self.take();
            count += 1;
        }
        if count > 0 && self.is_negative_literal() {
            // `--1` is an even number of operators before `1`.
            self.take();
            count += 1;
        }
        if count.is_multiple_of(2) {
            return self.member();
        }
        let id = self.source.new_id(Some(first.position));
        let operand = self.member()?;
        Ok(call(id, function, vec![operand]))
    }

    fn is_negative_literal(&self) -> bool {
        let next = self.tokens.get(self.next + 1);
        self.peek_symbol(0) == "-"
            && next.is_some_and(|next| matches!(next.kind, TokenKind::Int | TokenKind::Double))
    }

    fn member(&mut self) -> Parsed<Expr> {
        let mut operand = self.primary()?;
        let mut links = 0;
        loop {
            links += 1;
            if links > MAX_DEPTH {
                return Err(Failure::TooDeep);
            }
            operand = match self.peek_symbol(0) {
                "." => self.selection(operand)?,
                "[" => {
                    let open = self.take();
                    let id = self.source.new_id(Some(open.position));
                    let is_optional = self.take_symbol("?").is_some();
                    let index = self.expression()?;
                    self.expect("]")?;
                    let function = if is_optional { "_[?_]" } else { "_[_]" };
                    call(id, function, vec![operand, index])
                }
                _ => return Ok(operand),
            };
        }
    }

    fn selection(&mut self, operand: Expr) -> Parsed<Expr> {
        let dot = self.take();
        let is_optional = self.take_symbol("?").is_some();
        let name = self.name()?;
        if !is_optional && self.peek_symbol(0) == "(" {
            let open = self.take();
            let id = self.source.new_id(Some(open.position));
            let arguments = self.arguments()?;
            return Ok(self.call_or_macro(id, name.text, Some(operand), arguments));
        }
        if is_optional {
            let field = Kind::Literal(Literal::String(name.text.to_owned()));
            let field = self.node(name.position, field);
            let id = self.source.new_id(Some(dot.position));
            return Ok(call(id, "_?._", vec![operand, field]));
        }
        let kind = Kind::Select {
            operand: Box::new(operand),
            field: name.text.to_owned(),
            is_test: false,
        };
        Ok(self.node(dot.position, kind))
    }

    /// Arguments after an opening parenthesis.
    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut arguments = Vec::new();
        if self.take_symbol(")").is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.take_symbol(",").is_none() {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.peek();
        match (token.kind, token.text) {
            (TokenKind::Symbol, "(") => {
                self.take();
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            (TokenKind::Symbol, "[") => self.list(),
            (TokenKind::Symbol, "{") => self.map(),
            (TokenKind::Symbol, ".") => self.named(),
            (TokenKind::Identifier, "true" | "false" | "null") => {
                self.take();
                let literal = match token.text {
                    "null" => Literal::Null,
                    text => Literal::Bool(text == "true"),
                };
                Ok(self.node(token.position, Kind::Literal(literal)))
            }
            (TokenKind::Identifier, word) if word != "in" => self.named(),
            (TokenKind::Identifier | TokenKind::End, _) => Err(Failure::Syntax),
            (TokenKind::Symbol, "-") | (_, _) => self.literal(),
        }
    }

    /// A name, a call of a function, or a message.
    fn named(&mut self) -> Parsed<Expr> {
        let start = self.peek().position;
        let has_dot = self.take_symbol(".").is_some();
        let name = self.name()?;
        if let Some(message) = self.message_name(name.text) {
            return self.message(&message, has_dot);
        }
        let is_reserved = RESERVED.contains(&name.text);
        let full = if has_dot {
            format!(".{}", name.text)
        } else {
            name.text.to_owned()
        };
        let reserved = || format!("reserved identifier: {}", name.text);
        if let Some(open) = self.take_symbol("(") {
            let id = self.source.new_id(Some(open.position));
            let arguments = self.arguments()?;
            if is_reserved {
                return Ok(self.problem(start, reserved()));
            }
            return Ok(self.call_or_macro(id, &full, None, arguments));
        }
        if is_reserved {
            return Ok(self.problem(start, reserved()));
        }
        Ok(self.node(name.position, Kind::Ident(full)))
    }

    fn call_or_macro(
        &mut self,
        id: Id,
        function: &str,
        target: Option<Expr>,
        arguments: Vec<Expr>,
    ) -> Expr {
        match macros::expand(self.source, id, function, target, arguments) {
            macros::Expansion::Expanded(expression) => expression,
            macros::Expansion::None(target, arguments) => Expr {
                id,
                kind: Kind::Call {
                    target: target.map(Box::new),
                    function: function.to_owned(),
                    arguments,
                },
            },
        }
    }
}

fn call(id: Id, function: &str, arguments: Vec<Expr>) -> Expr {
    Expr {
        id,
        kind: Kind::Call {
            target: None,
            function: function.to_owned(),
            arguments,
        },
    }
}

fn balanced(function: &str, terms: &mut impl Iterator<Item = Expr>, operators: &[Id]) -> Expr {
    // There is one term more than operators.
    let missing = || Expr {
        id: 0,
        kind: Kind::Invalid,
    };
    let middle = operators.len() / 2;
    let Some(id) = operators.get(middle).copied() else {
        return terms.next().unwrap_or_else(missing);
    };
    let left = balanced(function, terms, operators.get(..middle).unwrap_or_default());
    let after = operators.get(middle + 1..).unwrap_or_default();
    let right = balanced(function, terms, after);
    Expr {
        id,
        kind: Kind::Call {
            target: None,
            function: function.to_owned(),
            arguments: vec![left, right],
        },
    }
}

//! Query text to an expression tree.
//!
//! ```text
//! either  = both   { ("|" | "or") both }
//! both    = single { ("&" | "+" | "and" | "-") single }     "a - b" is "a and not b"
//! single  = ("!" | "~" | "not" | "-") single | name | "(" either ")"
//! name    = letters, digits, "_" and "." ; anything else in double or single quotes
//! ```

use crate::error::Error;
use crate::labels::{Labels, is_name_character, is_word_operator};

/// Deepest nesting of parentheses and negations; deeper text is an attack, not a question.
const MAX_DEPTH: usize = 200;

/// Longest query, in bytes.
const MAX_LENGTH: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Label(usize),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    Not,
    And,
    Minus,
    Or,
    Open,
    Close,
}

impl Token {
    fn text(&self) -> String {
        match self {
            Self::Name(name) => format!("`{name}`"),
            Self::Not => "a negation".into(),
            Self::And => "`+`".into(),
            Self::Minus => "`-`".into(),
            Self::Or => "`|`".into(),
            Self::Open => "`(`".into(),
            Self::Close => "`)`".into(),
        }
    }
}

pub(super) fn parse(text: &str, labels: &Labels) -> Result<Expression, Error> {
    if text.len() > MAX_LENGTH {
        return Err(Error::too_large(format!(
            "the query is {} bytes long; at most {MAX_LENGTH} are read",
            text.len()
        )));
    }
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err(Error::syntax(
            "the query is empty\nhint: name at least one label, as in \"A + B - C\"",
        ));
    }
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        depth: 0,
        labels,
    };
    let expression = parser.either()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.unexpected("an operator or the end")),
    }
}

/// Splits text into tokens with their positions, counted in characters from 1.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Error> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let start = at;
        let character = characters[at];
        at += 1;
        let token = match character {
            c if c.is_whitespace() => continue,
            '!' | '~' => Token::Not,
            '&' | '+' => Token::And,
            '-' => Token::Minus,
            '|' => Token::Or,
            '(' => Token::Open,
            ')' => Token::Close,
            quote @ ('"' | '\'') => {
                let length = characters[at..].iter().position(|&c| c == quote);
                let length = length.ok_or_else(|| {
                    Error::syntax(format!("the quote at position {} is not closed", start + 1))
                })?;
                let name = characters[at..at + length].iter().collect();
                at += length + 1;
                Token::Name(name)
            }
            c if is_name_character(c) => {
                while at < characters.len() && is_name_character(characters[at]) {
                    at += 1;
                }
                word(characters[start..at].iter().collect())
            }
            other => {
                return Err(Error::syntax(format!(
                    "character {other:?} at position {} is not part of the query language\nhint: put label names with special characters in double quotes",
                    start + 1
                )));
            }
        };
        tokens.push((start + 1, token));
    }
    Ok(tokens)
}

fn word(word: String) -> Token {
    match word.as_str() {
        "not" => Token::Not,
        "and" => Token::And,
        "or" => Token::Or,
        other => {
            debug_assert!(
                !is_word_operator(other),
                "every word operator has an arm above"
            );
            Token::Name(word)
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    labels: &'a Labels,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn either(&mut self) -> Result<Expression, Error> {
        let mut parts = vec![self.both()?];
        while self.peek() == Some(&Token::Or) {
            self.at += 1;
            parts.push(self.both()?);
        }
        Ok(Expression::Any(parts))
    }

    fn both(&mut self) -> Result<Expression, Error> {
        let mut parts = vec![self.single()?];
        loop {
            let negated = match self.peek() {
                Some(Token::And) => false,
                Some(Token::Minus) => true,
                _ => return Ok(Expression::All(parts)),
            };
            self.at += 1;
            let part = self.single()?;
            parts.push(if negated {
                Expression::Not(Box::new(part))
            } else {
                part
            });
        }
    }

    fn single(&mut self) -> Result<Expression, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::too_large("the query is nested too deeply"));
        }
        let expression = match self.peek().cloned() {
            Some(Token::Not | Token::Minus) => {
                self.at += 1;
                Expression::Not(Box::new(self.single()?))
            }
            Some(Token::Open) => {
                let opened = self.tokens[self.at].0;
                self.at += 1;
                let inner = self.either()?;
                if self.peek() != Some(&Token::Close) {
                    return Err(match self.peek() {
                        None => Error::syntax(format!(
                            "the parenthesis at position {opened} is not closed"
                        )),
                        Some(_) => self.unexpected("an operator or `)`"),
                    });
                }
                self.at += 1;
                inner
            }
            Some(Token::Name(name)) => {
                let label = self.labels.find(&name);
                let label = label.ok_or_else(|| super::unknown(&name, self.text, self.labels))?;
                self.at += 1;
                Expression::Label(label)
            }
            _ => return Err(self.unexpected("a label")),
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn unexpected(&self, wanted: &'static str) -> Error {
        match self.tokens.get(self.at) {
            None => Error::syntax(format!("expected {wanted}, but the query ends there")),
            Some((position, token)) => Error::syntax(format!(
                "expected {wanted} at position {position}, found {}",
                token.text()
            )),
        }
    }
}

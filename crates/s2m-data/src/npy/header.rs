//! The header of an array: a Python literal with three keys.

/// What a header says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    pub(super) descr: String,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

/// Where a header is not as it should be.
#[derive(Debug, PartialEq)]
pub(super) struct Unclear {
    pub(super) wanted: &'static str,
    pub(super) found: String,
}

impl Header {
    pub(super) fn parse(text: &str) -> Result<Self, Unclear> {
        let mut text = Literal(text.trim());
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect("{")?;
        while !text.eat("}") {
            let key = text.string()?;
            text.expect(":")?;
            match key {
                "descr" => descr = Some(text.descr()?.to_owned()),
                "fortran_order" => fortran_order = Some(text.truth()?),
                "shape" => shape = Some(text.sizes()?),
                _ => return Err(Literal(key).unclear("only descr, fortran_order and shape")),
            }
            if !text.eat(",") && !text.0.starts_with('}') {
                return Err(text.unclear("`,` or `}`"));
            }
        }
        if !text.0.is_empty() {
            return Err(text.unclear("its end"));
        }
        Ok(Self {
            descr: descr.ok_or_else(|| text.unclear("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| text.unclear("fortran_order"))?,
            shape: shape.ok_or_else(|| text.unclear("shape"))?,
        })
    }
}

/// The rest of a Python literal, without space before it.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    fn unclear(&self, wanted: &'static str) -> Unclear {
        Unclear {
            wanted,
            found: self.0.chars().take(40).collect(),
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        let rest = self.0.strip_prefix(token);
        self.0 = rest.map_or(self.0, str::trim_start);
        rest.is_some()
    }

    fn expect(&mut self, token: &'static str) -> Result<(), Unclear> {
        if self.eat(token) {
            return Ok(());
        }
        Err(self.unclear(token))
    }

    /// Text in quotes of either kind; NumPy writes nothing that needs escapes.
    fn string(&mut self) -> Result<&'a str, Unclear> {
        let inside = |quote| self.0.strip_prefix(quote)?.split_once(quote);
        let Some((text, rest)) = inside('\'').or_else(|| inside('"')) else {
            return Err(self.unclear("text in quotes"));
        };
        self.0 = rest.trim_start();
        Ok(text)
    }

    /// A type's name, or, for a type of several fields, all that follows.
    fn descr(&mut self) -> Result<&'a str, Unclear> {
        if !self.0.starts_with('[') {
            return self.string();
        }
        let end = self.0.rfind(']').map_or(self.0.len(), |last| last + 1);
        let (fields, rest) = self.0.split_at(end);
        self.0 = rest.trim_start();
        Ok(fields)
    }

    fn truth(&mut self) -> Result<bool, Unclear> {
        if self.eat("True") {
            return Ok(true);
        }
        if self.eat("False") {
            return Ok(false);
        }
        Err(self.unclear("True or False"))
    }

    /// Whole numbers in parentheses; one of Python 2 may end in `L`.
    fn sizes(&mut self) -> Result<Vec<usize>, Unclear> {
        self.expect("(")?;
        let mut sizes = Vec::new();
        while !self.eat(")") {
            let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = self.0.split_at(digits);
            let number = number.parse();
            sizes.push(number.map_err(|_| self.unclear("a size"))?);
            self.0 = rest.trim_start();
            self.eat("L");
            if !self.eat(",") && !self.0.starts_with(')') {
                return Err(self.unclear("`,` or `)`"));
            }
        }
        Ok(sizes)
    }
}

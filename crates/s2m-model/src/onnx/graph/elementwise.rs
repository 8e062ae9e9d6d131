//! Operators that work on each value by itself, or on two values at the same place.

use super::super::proto::AttributeProto;
use super::{Element, Elements, GraphBuilder, Made, Tensor, broadcast, check_element};

use crate::error::Error;

const F32: Elements = Elements::Only(Element::F32);

/// Methods of one value that all look alike.
macro_rules! unary {
    ($($(#[$doc:meta])* $method:ident: $op_type:literal of $elements:expr;)*) => {
        impl GraphBuilder {$(
            $(#[$doc])*
            pub fn $method(&mut self, x: &Tensor) -> Result<Tensor, Error> {
                self.each(stringify!($method), $op_type, ($elements, x))
            }
        )*}
    };
}

unary! {
    /// `max(x, 0)`.
    relu: "Relu" of F32;
    /// Hyperbolic tangent.
    tanh: "Tanh" of F32;
    /// `1 / (1 + e^−x)`.
    sigmoid: "Sigmoid" of F32;
    /// The error function.
    erf: "Erf" of F32;
    /// `e^x`.
    exp: "Exp" of F32;
    /// Natural logarithm; `-∞` at 0, NaN below.
    log: "Log" of F32;
    /// Square root; NaN below 0.
    sqrt: "Sqrt" of F32;
    /// `−x`.
    neg: "Neg" of Elements::Numbers;
    /// `|x|`.
    abs: "Abs" of Elements::Numbers;
    /// The largest whole number that is not above `x`.
    floor: "Floor" of F32;
    /// The nearest whole number, halves to even.
    round: "Round" of F32;
}

/// Methods of two values that all look alike.
macro_rules! binary {
    ($($(#[$doc:meta])* $method:ident: $op_type:literal;)*) => {
        impl GraphBuilder {$(
            $(#[$doc])*
            pub fn $method(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
                let made = self.both(stringify!($method), a, b)?;
                Ok(self.push($op_type, &[&a.name, &b.name], made))
            }
        )*}
    };
}

binary! {
    /// `a + b`, broadcast as in numpy.
    add: "Add";
    /// `a − b`, broadcast as in numpy.
    sub: "Sub";
    /// `a · b`, broadcast as in numpy.
    mul: "Mul";
    /// `a / b`, broadcast as in numpy.
    div: "Div";
    /// The smaller of two values; NaN when either is NaN.
    minimum: "Min";
    /// The larger of two values; NaN when either is NaN.
    maximum: "Max";
}

impl GraphBuilder {
    /// `x` where positive, `alpha · x` elsewhere.
    pub fn leaky_relu(&mut self, x: &Tensor, alpha: f32) -> Result<Tensor, Error> {
        self.known("leaky_relu", &[x])?;
        check_element("leaky_relu", F32, x)?;
        let made = Made::f32(x.shape.clone()).with(AttributeProto::float("alpha", alpha));
        Ok(self.push("LeakyRelu", &[&x.name], made))
    }

    /// `x` held within `[min, max]`.
    pub fn clip(&mut self, x: &Tensor, min: f32, max: f32) -> Result<Tensor, Error> {
        self.known("clip", &[x])?;
        check_element("clip", F32, x)?;
        let (min, max) = (self.scalar(min), self.scalar(max));
        let made = Made::f32(x.shape.clone());
        Ok(self.push("Clip", &[&x.name, &min.name, &max.name], made))
    }

    /// `x` as another element type; decimals lose what is behind the point.
    pub fn cast(&mut self, x: &Tensor, to: Element) -> Result<Tensor, Error> {
        self.known("cast", &[x])?;
        let number = i64::from(to.number());
        let made = Made::of(x.shape.clone(), to).with(AttributeProto::int("to", number));
        Ok(self.push("Cast", &[&x.name], made))
    }

    /// Whether `a ≥ b`.
    pub fn greater_or_equal(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        let shape = self.both("greater_or_equal", a, b)?.shape;
        let made = Made::of(shape, Element::Bool);
        Ok(self.push("GreaterOrEqual", &[&a.name, &b.name], made))
    }

    /// Whether `a < b`.
    pub fn less(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        let shape = self.both("less", a, b)?.shape;
        let made = Made::of(shape, Element::Bool);
        Ok(self.push("Less", &[&a.name, &b.name], made))
    }

    /// `a` where `condition` holds and `b` elsewhere (ONNX calls this `Where`).
    pub fn select(&mut self, condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        self.known("select", &[condition])?;
        check_element("select", Elements::Only(Element::Bool), condition)?;
        let both = self.both("select", a, b)?;
        let shape = broadcast("select", &condition.shape, &both.shape)?;
        let made = Made::of(shape, both.element);
        Ok(self.push("Where", &[&condition.name, &a.name, &b.name], made))
    }

    fn each(
        &mut self,
        op: &'static str,
        op_type: &str,
        (wanted, x): (Elements, &Tensor),
    ) -> Result<Tensor, Error> {
        self.known(op, &[x])?;
        check_element(op, wanted, x)?;
        let made = Made::of(x.shape.clone(), x.element);
        Ok(self.push(op_type, &[&x.name], made))
    }

    /// Checks two numbers that meet place by place.
    fn both(&self, op: &'static str, a: &Tensor, b: &Tensor) -> Result<Made, Error> {
        self.known(op, &[a, b])?;
        check_element(op, Elements::Numbers, a)?;
        check_element(op, Elements::Only(a.element), b)?;
        Ok(Made::of(broadcast(op, &a.shape, &b.shape)?, a.element))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dim::{Batch, Fixed};
    use super::*;

    #[test]
    fn shapes_that_do_not_broadcast_are_both_shown() {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("x", &[3], Element::F32).unwrap();
        let w = graph.constant("w", &[4], &[0.0; 4]).unwrap();
        assert_eq!(
            graph.add(&x, &w).unwrap_err().to_string(),
            "add: wanted shapes that broadcast, found [n, 3] and [4]"
        );
    }

    #[test]
    fn a_class_index_is_not_a_decimal() {
        let mut graph = GraphBuilder::new("toy");
        let class = graph.input("class", &[], Element::I64).unwrap();
        let x = graph.input("x", &[], Element::F32).unwrap();
        assert_eq!(
            graph.relu(&class).unwrap_err().to_string(),
            "relu: wanted f32 values, found i64 in `class`"
        );
        assert_eq!(
            graph.mul(&x, &class).unwrap_err().to_string(),
            "mul: wanted f32 values, found i64 in `class`"
        );
        let cast = graph.cast(&class, Element::F32).unwrap();
        assert!(graph.mul(&x, &cast).is_ok());
    }

    #[test]
    fn a_comparison_gives_a_condition_and_select_takes_one() {
        let mut graph = GraphBuilder::new("toy");
        let x = graph.input("x", &[3], Element::F32).unwrap();
        let zero = graph.scalar(0.0);
        let condition = graph.greater_or_equal(&x, &zero).unwrap();
        assert_eq!(condition.element, Element::Bool);
        let y = graph.select(&condition, &x, &zero).unwrap();
        assert_eq!(y.shape, [Batch, Fixed(3)]);
        assert_eq!(
            graph.select(&x, &x, &zero).unwrap_err().to_string(),
            "select: wanted bool values, found f32 in `x`"
        );
        assert_eq!(
            graph.neg(&condition).unwrap_err().to_string(),
            "neg: wanted f32 or i64 values, found bool in `GreaterOrEqual#2`"
        );
    }
}

//! What can keep a metric from being computed.

s2m_core::error! {
    /// There are fewer items than the metric needs.
    TooFew(too_few),
    /// There are more items than the metric takes.
    TooLarge(too_large),
    /// A value is not a finite number, or not a probability.
    Value(value),
    /// Lists that belong together differ in length or width.
    Mismatch(mismatch),
    /// A setting is out of its range.
    Setting(setting),
    /// A decomposition did not converge.
    NoConvergence(no_convergence),
}

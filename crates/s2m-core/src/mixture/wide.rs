//! Inner loops with wider vectors, where the processor has them.
//!
//! Compilers use the vectors that every processor of a kind has, on x86-64 a quarter of what most have
//! now. Nothing is fused and sums keep their order, so the bits are the same either way.

/// Returns `plain(arguments …)`, compiled for wider vectors where the processor has them. `plain` and
/// what it calls must be `#[inline(always)]`, or they keep the narrow ones.
macro_rules! wide {
    ($plain:ident($($argument:ident: $type:ty),*) -> $answer:ty) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[inline(never)] // Inlined, sums were seen to leave the registers.
            #[target_feature(enable = "avx2")]
            fn wide($($argument: $type),*) -> $answer {
                $plain($($argument),*)
            }
            if std::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2, as was just asked.
                return unsafe { wide($($argument),*) };
            }
        }
        $plain($($argument),*)
    }};
}

pub(super) use wide;

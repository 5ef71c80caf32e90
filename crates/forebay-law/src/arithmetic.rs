//! Products that may exceed 64 bits before they are divided again.

/// `value * numerator / denominator`, rounded down, and the largest number if it does not fit.
/// The denominator must not be 0.
pub(crate) fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// The floor of the binary logarithm; 0 for 0.
pub(crate) fn log2(value: u64) -> u32 {
    value.max(1).ilog2()
}

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Milliseconds of a second: rates are per second, times in milliseconds.
pub(crate) const MS_PER_S: u64 = 1000;

/// Fraction bits of a ratio.
pub(crate) const RATIO_BITS: u32 = 10;

/// The ratio that stands for one.
pub(crate) const RATIO_ONE: u64 = 1 << RATIO_BITS;

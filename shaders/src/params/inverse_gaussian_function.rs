//! Codes of the functions of `inverse_gaussian_eval`.

/// A function computed by `inverse_gaussian_eval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum InverseGaussianFunction {
    /// The density.
    Pdf,
    /// The logarithm of the density.
    LnPdf,
    /// The distribution function, `P(X <= x)`.
    Cdf,
    /// The survival function, `P(X > x)`.
    Sf,
    /// The logarithm of the distribution function.
    LnCdf,
    /// The logarithm of the survival function.
    LnSf,
}

impl InverseGaussianFunction {
    /// Every function, in the order of the codes.
    pub const ALL: [Self; 6] = [
        Self::Pdf,
        Self::LnPdf,
        Self::Cdf,
        Self::Sf,
        Self::LnCdf,
        Self::LnSf,
    ];

    /// Returns the function with this code. Unknown codes return the last function, as in the
    /// kernel.
    #[must_use]
    pub fn from_code(code: u32) -> Self {
        Self::ALL
            .into_iter()
            .find(|function| *function as u32 == code)
            .unwrap_or(Self::LnSf)
    }
}

//! Names that nobody guesses: the token of a page, and the names of its visitors.

use crate::error::Error;

/// 128 random bits.
pub(crate) fn random_name() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|e| Error::Token(e.to_string()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

//! Parsing of einsum specifications.
//!
//! Role: the part of einsum that does not depend on shapes. [`EinsumSpec::resolve`] takes the
//! shapes and returns a [`Contraction`](super::Contraction).

use std::fmt;

use crate::error::EinsumError;

/// A parsed specification such as `"ik,kj->ij"` or `"...ij,...jk->...ik"`.
///
/// `Display` writes the normal form: explicit and without blanks. Parsing the normal form returns
/// an equal value.
///
/// # Examples
/// ```
/// use tensor_core::einsum::EinsumSpec;
/// let spec = EinsumSpec::parse("k...j, ik")?;
/// assert_eq!(spec.to_string(), "k...j,ik->...ij");
/// let matrices = spec.resolve(&[&[3, 4], &[2, 3]])?;
/// assert_eq!(matrices.out_shape(), [2, 4]);
/// let batched = spec.resolve(&[&[3, 7, 4], &[2, 3]])?;
/// assert_eq!(batched.out_shape(), [7, 2, 4]);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EinsumSpec {
    pub(super) inputs: Vec<Subscripts>,
    pub(super) output: Subscripts,
}

/// The indices of one operand or of the output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Subscripts {
    pub(super) letters: Vec<char>,
    /// The number of letters before the ellipsis; `None` without an ellipsis.
    pub(super) ellipsis: Option<usize>,
}

impl EinsumSpec {
    /// Parses explicit (`"ik,kj->ij"`) or implicit (`"ik,kj"`) notation; indices are ASCII letters.
    ///
    /// An operand and the output may each have one ellipsis. Without `->` the output is the
    /// ellipsis, if an operand has one, followed by the letters that occur once, in alphabetical
    /// order. Blanks are ignored except inside `...` and `->`.
    ///
    /// # Errors
    /// [`EinsumError::UnexpectedCharacter`], [`EinsumError::UnknownOutputIndex`] or
    /// [`EinsumError::RepeatedOutputIndex`].
    pub fn parse(spec: &str) -> Result<Self, EinsumError> {
        let (inputs, output) = match spec.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (spec, None),
        };
        let (mut parsed, start_of_output) = (Vec::new(), inputs.chars().count() + 2);
        let mut position = 0;
        for input in inputs.split(',') {
            parsed.push(Subscripts::parse(spec, input, position)?);
            position += input.chars().count() + 1;
        }
        let output = match output {
            Some(output) => Subscripts::parse(spec, output, start_of_output)?,
            None => Subscripts::implicit(&parsed),
        };
        for (at, &index) in output.letters.iter().enumerate() {
            let spec = spec.to_owned();
            if output.letters[..at].contains(&index) {
                return Err(EinsumError::RepeatedOutputIndex { spec, index });
            }
            if !parsed.iter().any(|input| input.letters.contains(&index)) {
                return Err(EinsumError::UnknownOutputIndex { spec, index });
            }
        }
        Ok(Self {
            inputs: parsed,
            output,
        })
    }

    /// Returns the number of operands, at least 1.
    #[must_use]
    pub fn n_operands(&self) -> usize {
        self.inputs.len()
    }
}

impl fmt::Display for EinsumSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, input) in self.inputs.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{input}")?;
        }
        write!(f, "->{}", self.output)
    }
}

impl Subscripts {
    /// Parses `part`, which begins at character `start` of `spec`.
    fn parse(spec: &str, part: &str, start: usize) -> Result<Self, EinsumError> {
        let mut parsed = Self {
            letters: Vec::new(),
            ellipsis: None,
        };
        // Positions are counted in characters, slices in bytes.
        let (mut rest, mut position) = (part, start);
        while let Some(found) = rest.chars().next() {
            let mut token = found.len_utf8();
            if found.is_ascii_alphabetic() {
                parsed.letters.push(found);
            } else if rest.starts_with("...") && parsed.ellipsis.is_none() {
                parsed.ellipsis = Some(parsed.letters.len());
                token = 3;
            } else if !found.is_whitespace() {
                return Err(EinsumError::UnexpectedCharacter {
                    spec: spec.to_owned(),
                    found,
                    position,
                });
            }
            position += rest[..token].chars().count();
            rest = &rest[token..];
        }
        Ok(parsed)
    }

    /// Returns the output of a specification without `->`.
    fn implicit(inputs: &[Self]) -> Self {
        let mut letters: Vec<char> = inputs.iter().flat_map(|i| &i.letters).copied().collect();
        letters.sort_unstable();
        let once = letters.chunk_by(|a, b| a == b).filter(|run| run.len() == 1);
        Self {
            letters: once.map(|run| run[0]).collect(),
            ellipsis: inputs.iter().any(|i| i.ellipsis.is_some()).then_some(0),
        }
    }
}

impl fmt::Display for Subscripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.ellipsis.unwrap_or(self.letters.len());
        let dots = self.ellipsis.map_or("", |_| "...");
        let (left, right) = self.letters.split_at(before);
        write!(
            f,
            "{}{dots}{}",
            String::from_iter(left),
            String::from_iter(right)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_ignored_and_implicit_output_is_alphabetical() {
        for (given, normal) in [
            (" i k , k j -> j i ", "ik,kj->ji"),
            ("ba", "ba->ab"),
            ("aB", "aB->Ba"),
            ("ii", "ii->"),
            ("ij,jk,kl", "ij,jk,kl->il"),
            ("", "->"),
            ("i,,j->", "i,,j->"),
            ("b ...a", "b...a->...ab"),
            ("...ij,...jk", "...ij,...jk->...ik"),
            ("i,...->i...", "i,...->i..."),
            ("i->...i", "i->...i"),
            ("...->", "...->"),
        ] {
            assert_eq!(
                EinsumSpec::parse(given).unwrap().to_string(),
                normal,
                "{given:?}"
            );
        }
    }

    #[test]
    fn malformed_specifications_are_rejected_where_they_go_wrong() {
        let spec = |s: &str| s.to_owned();
        for (given, position, found) in [
            ("i1->i", 1, '1'),
            ("ij-i", 2, '-'),
            ("i->j->k", 4, '-'),
            ("i- >i", 1, '-'),
            ("ä", 0, 'ä'),
            ("i->i,j", 4, ','),
            ("é,i..", 0, 'é'),
            ("i,i..", 3, '.'),
            ("......", 3, '.'),
            ("....", 3, '.'),
            ("...i...", 4, '.'),
            (".. .i", 0, '.'),
            ("i...->i....", 10, '.'),
        ] {
            let error = EinsumSpec::parse(given).unwrap_err();
            assert_eq!(
                error,
                EinsumError::UnexpectedCharacter {
                    spec: spec(given),
                    found,
                    position
                }
            );
        }
        let unknown = EinsumSpec::parse("i->j").unwrap_err();
        assert_eq!(
            unknown,
            EinsumError::UnknownOutputIndex {
                spec: spec("i->j"),
                index: 'j'
            }
        );
        let repeated = EinsumSpec::parse("i->ii").unwrap_err();
        assert_eq!(
            repeated,
            EinsumError::RepeatedOutputIndex {
                spec: spec("i->ii"),
                index: 'i'
            }
        );
    }
}

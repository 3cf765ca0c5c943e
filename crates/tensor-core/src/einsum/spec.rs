//! Einsum specifications: parsing, and the sizes that operands give to labels.
//!
//! Role: the part of einsum that every executor shares; nothing here computes.

use std::fmt;

/// A parsed specification such as `"ik,kj->ij"`.
///
/// # Examples
/// ```
/// use tensor_core::einsum::EinsumSpec;
/// let spec = EinsumSpec::parse("kj, ik")?;
/// assert_eq!(spec.output(), ['i', 'j']);
/// assert_eq!(spec.summed(), ['k']);
/// assert_eq!(spec.to_string(), "kj,ik->ij");
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EinsumSpec {
    inputs: Vec<Vec<char>>,
    output: Vec<char>,
}

/// Why an einsum specification is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EinsumError {
    /// A character is neither a letter, a comma, a blank nor part of the one `->`.
    #[error("einsum {spec:?}: unexpected {found:?} at character {position}")]
    UnexpectedCharacter {
        /// The specification as given.
        spec: String,
        /// The character that does not belong there.
        found: char,
        /// Its place, counted in characters from zero.
        position: usize,
    },
    /// The specification has an ellipsis.
    #[error("einsum {spec:?}: the ellipsis at character {position} is not supported yet")]
    EllipsisUnsupported {
        /// The specification as given.
        spec: String,
        /// Its place, counted in characters from zero.
        position: usize,
    },
    /// An output index occurs in no operand.
    #[error("einsum {spec:?}: output index {index:?} occurs in no operand")]
    UnknownOutputIndex {
        /// The specification as given.
        spec: String,
        /// The index.
        index: char,
    },
    /// An index occurs twice in the output.
    #[error("einsum {spec:?}: index {index:?} occurs more than once in the output")]
    RepeatedOutputIndex {
        /// The specification as given.
        spec: String,
        /// The index.
        index: char,
    },
    /// The specification is for another number of operands.
    #[error("einsum {spec:?}: the specification has {expected} operands, the call {actual}")]
    OperandCount {
        /// The specification in normal form.
        spec: String,
        /// How many operands the specification names.
        expected: usize,
        /// How many were given.
        actual: usize,
    },
    /// An operand does not have one axis for each of its indices.
    #[error("einsum {spec:?}: operand {operand} has {expected} indices, its shape is {shape:?}")]
    OperandRank {
        /// The specification in normal form.
        spec: String,
        /// Which operand, counted from zero.
        operand: usize,
        /// How many indices the specification gives it.
        expected: usize,
        /// The shape that it has.
        shape: Vec<usize>,
    },
    /// One index stands for two sizes.
    #[error(
        "einsum {spec:?}: index {index:?} has size {left} in operand {left_operand} of shape \
         {left_shape:?} and size {right} in operand {right_operand} of shape {right_shape:?}"
    )]
    SizeMismatch {
        /// The specification in normal form.
        spec: String,
        /// The index.
        index: char,
        /// The size met first.
        left: usize,
        /// The operand that has it.
        left_operand: usize,
        /// The shape of that operand.
        left_shape: Vec<usize>,
        /// The size that does not fit.
        right: usize,
        /// The operand that has it.
        right_operand: usize,
        /// The shape of that operand.
        right_shape: Vec<usize>,
    },
}

impl EinsumSpec {
    /// Parses explicit (`"ik,kj->ij"`) or implicit (`"ik,kj"`) notation; indices are ASCII letters.
    ///
    /// # Errors
    /// The first four variants of [`EinsumError`].
    pub fn parse(spec: &str) -> Result<Self, EinsumError> {
        let (inputs, output) = match spec.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (spec, None),
        };
        let (mut parsed, start_of_output) = (Vec::new(), inputs.chars().count() + 2);
        let mut position = 0;
        for input in inputs.split(',') {
            parsed.push(parse_labels(spec, input, position)?);
            position += input.chars().count() + 1;
        }
        let output = match output {
            Some(output) => parse_labels(spec, output, start_of_output)?,
            None => implicit_output(&parsed),
        };
        for (at, &index) in output.iter().enumerate() {
            let spec = spec.to_owned();
            if output[..at].contains(&index) {
                return Err(EinsumError::RepeatedOutputIndex { spec, index });
            }
            if !parsed.iter().flatten().any(|&label| label == index) {
                return Err(EinsumError::UnknownOutputIndex { spec, index });
            }
        }
        Ok(Self {
            inputs: parsed,
            output,
        })
    }

    /// The indices of each operand.
    #[must_use]
    pub fn inputs(&self) -> &[Vec<char>] {
        &self.inputs
    }

    /// The indices of the output.
    #[must_use]
    pub fn output(&self) -> &[char] {
        &self.output
    }

    /// The indices that are summed over, in order of their first appearance.
    #[must_use]
    pub fn summed(&self) -> Vec<char> {
        let mut summed = Vec::new();
        for &label in self.inputs.iter().flatten() {
            if !self.output.contains(&label) && !summed.contains(&label) {
                summed.push(label);
            }
        }
        summed
    }

    /// Gives every index with its size, output indices first, then the summed ones.
    ///
    /// # Errors
    /// The last three variants of [`EinsumError`].
    pub fn sizes(&self, shapes: &[&[usize]]) -> Result<Vec<(char, usize)>, EinsumError> {
        let (expected, actual) = (self.inputs.len(), shapes.len());
        if expected != actual {
            return Err(EinsumError::OperandCount {
                spec: self.to_string(),
                expected,
                actual,
            });
        }
        for (operand, (input, shape)) in self.inputs.iter().zip(shapes).enumerate() {
            if input.len() != shape.len() {
                return Err(EinsumError::OperandRank {
                    spec: self.to_string(),
                    operand,
                    expected: input.len(),
                    shape: shape.to_vec(),
                });
            }
        }
        let labels = self.output.iter().copied().chain(self.summed());
        labels
            .map(|label| Ok((label, self.size_of(label, shapes)?)))
            .collect()
    }

    /// The size of one index; an axis of size 1 gives way to other operands, not to its own.
    fn size_of(&self, index: char, shapes: &[&[usize]]) -> Result<usize, EinsumError> {
        let mismatch = |left_operand: usize, left, right_operand: usize, right| {
            Err(EinsumError::SizeMismatch {
                spec: self.to_string(),
                index,
                left,
                left_operand,
                left_shape: shapes[left_operand].to_vec(),
                right,
                right_operand,
                right_shape: shapes[right_operand].to_vec(),
            })
        };
        // Every index stands in an operand, so the first one found replaces this size of 1.
        let mut agreed = (0, 1);
        for (operand, (input, shape)) in self.inputs.iter().zip(shapes).enumerate() {
            let mut own = input
                .iter()
                .zip(*shape)
                .filter(|(label, _)| **label == index);
            let Some((_, &size)) = own.next() else {
                continue;
            };
            if let Some((_, &other)) = own.find(|(_, other)| **other != size) {
                return mismatch(operand, size, operand, other);
            }
            if agreed.1 == 1 {
                agreed = (operand, size);
            } else if size != 1 && size != agreed.1 {
                return mismatch(agreed.0, agreed.1, operand, size);
            }
        }
        Ok(agreed.1)
    }
}

impl fmt::Display for EinsumSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(String::from_iter).collect();
        write!(
            f,
            "{}->{}",
            inputs.join(","),
            String::from_iter(&self.output)
        )
    }
}

fn parse_labels(spec: &str, part: &str, start: usize) -> Result<Vec<char>, EinsumError> {
    let mut labels = Vec::new();
    for (position, found) in (start..).zip(part.chars()) {
        match found {
            'a'..='z' | 'A'..='Z' => labels.push(found),
            _ if found.is_whitespace() => {}
            _ => {
                let spec = spec.to_owned();
                let rest: String = part.chars().skip(position - start).take(3).collect();
                return Err(if rest == "..." {
                    EinsumError::EllipsisUnsupported { spec, position }
                } else {
                    EinsumError::UnexpectedCharacter {
                        spec,
                        found,
                        position,
                    }
                });
            }
        }
    }
    Ok(labels)
}

/// The indices that occur once in all operands together, in alphabetical order.
fn implicit_output(inputs: &[Vec<char>]) -> Vec<char> {
    let mut labels: Vec<char> = inputs.iter().flatten().copied().collect();
    labels.sort_unstable();
    labels
        .chunk_by(|a, b| a == b)
        .filter(|run| run.len() == 1)
        .map(|run| run[0])
        .collect()
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
        ] {
            assert_eq!(
                EinsumSpec::parse(given).unwrap().to_string(),
                normal,
                "{given:?}"
            );
        }
    }

    #[test]
    fn malformed_specifications_are_refused_where_they_go_wrong() {
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
        let ellipsis = EinsumSpec::parse("i, ...j->i").unwrap_err();
        assert_eq!(
            ellipsis,
            EinsumError::EllipsisUnsupported {
                spec: spec("i, ...j->i"),
                position: 3
            }
        );
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

    #[test]
    fn operands_that_do_not_fit_are_named() {
        let spec = EinsumSpec::parse("ik,kj->ij").unwrap();
        assert_eq!(
            spec.sizes(&[&[2, 3], &[3, 4]]).unwrap(),
            [('i', 2), ('j', 4), ('k', 3)]
        );
        let count = spec.sizes(&[&[2, 3]]).unwrap_err();
        assert_eq!(
            count.to_string(),
            "einsum \"ik,kj->ij\": the specification has 2 operands, the call 1"
        );
        let rank = spec.sizes(&[&[2, 3], &[3]]).unwrap_err();
        assert!(
            matches!(
                rank,
                EinsumError::OperandRank {
                    operand: 1,
                    expected: 2,
                    ..
                }
            ),
            "{rank}"
        );
        let size = spec.sizes(&[&[2, 3], &[4, 5]]).unwrap_err();
        assert!(
            matches!(
                size,
                EinsumError::SizeMismatch {
                    index: 'k',
                    left: 3,
                    right: 4,
                    ..
                }
            ),
            "{size}"
        );
    }
}

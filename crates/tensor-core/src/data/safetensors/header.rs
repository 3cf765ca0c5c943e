//! The header of a safetensors file.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;

use super::FORMAT;
use crate::data::error::DataError;
use crate::data::file_type::FileType;
use crate::data::scan::Scan;
use crate::dtype::DType;
use crate::shape::count_in_bytes;

/// What the format allows.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The key that names no tensor but texts about them.
const RESERVED_NAME: &str = "__metadata__";
/// The elements begin at a multiple of it.
const ALIGNMENT: usize = 8;

/// One tensor of a file, as the header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The type of the elements.
    pub dtype: FileType,
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// Where the elements are, in bytes from the end of the header. They begin where those of the
    /// entry before end.
    pub(super) place: Range<u64>,
}

impl Entry {
    /// Says in which tensor a fault was found.
    pub(super) fn fault(&self, fault: DataError) -> DataError {
        in_tensor(&self.name)(fault)
    }
}

fn in_tensor(name: &str) -> impl Fn(DataError) -> DataError {
    move |fault| DataError::InTensor {
        name: name.to_owned(),
        fault: Box::new(fault),
    }
}

fn bad(why: String) -> DataError {
    DataError::BadHeader {
        format: FORMAT,
        why,
    }
}

/// Reads and checks the header. The tensors come in the order of their elements, after the number
/// of bytes before these.
pub(super) fn read(input: &mut impl Read) -> Result<(u64, Vec<Entry>), DataError> {
    let mut length = Vec::new();
    input
        .take(size_of::<u64>() as u64)
        .read_to_end(&mut length)
        .map_err(DataError::io(FORMAT))?;
    let Ok(length) = length.try_into().map(u64::from_le_bytes) else {
        return Err(bad("the file ends within its first 8 bytes".into()));
    };
    if length > MAX_HEADER_BYTES {
        return Err(bad(format!(
            "the header claims {length} bytes, more than {MAX_HEADER_BYTES}"
        )));
    }
    let mut text = Vec::new();
    let got = input
        .take(length)
        .read_to_end(&mut text)
        .map_err(DataError::io(FORMAT))? as u64;
    if got < length {
        return Err(bad(format!(
            "the file ends after {got} of {length} bytes of the header"
        )));
    }
    let text = String::from_utf8(text).map_err(|_| bad("the header is no text".into()))?;
    let mut claims = parse(&text)?;
    claims.sort_by_key(|claim| claim.place);
    let mut end = 0;
    let entries = claims.into_iter().map(|claim| {
        let name = claim.name.clone();
        claim.checked(&mut end).map_err(in_tensor(&name))
    });
    let entries: Result<_, _> = entries.collect();
    Ok((size_of::<u64>() as u64 + length, entries?))
}

/// What the header says of one tensor.
#[derive(Debug)]
struct Claim {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    place: [usize; 2],
}

impl Claim {
    /// Accepts it if its elements fill exactly its place, and this begins at `end`, which moves on.
    fn checked(self, end: &mut usize) -> Result<Entry, DataError> {
        let Self {
            name,
            dtype,
            shape,
            place: [from, to],
        } = self;
        DataError::check_rank(FORMAT, shape.len())?;
        let known = FileType::READ
            .into_iter()
            .find(|known| code(known) == Some(&dtype));
        let dtype = known.unwrap_or(FileType::Other(dtype));
        // Of an unknown type only the order of the places can be checked.
        let n_bytes = match dtype.bytes() {
            None => to.checked_sub(from),
            Some(element_bytes) => match count_in_bytes(&shape, element_bytes) {
                Some(n_elements) => Some(n_elements * element_bytes),
                None => {
                    return Err(DataError::TooLarge {
                        format: FORMAT,
                        dtype,
                        shape,
                    });
                }
            },
        };
        if from != *end || n_bytes.is_none() || to.checked_sub(from) != n_bytes {
            let n_bytes = n_bytes.unwrap_or_default();
            return Err(bad(format!(
                "{dtype} elements of shape {shape:?} stand at {from}..{to}, not in {n_bytes} bytes from {end} on"
            )));
        }
        *end = to;
        Ok(Entry {
            name,
            dtype,
            shape,
            place: from as u64..to as u64,
        })
    }
}

/// Parses `{"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}`.
fn parse(text: &str) -> Result<Vec<Claim>, DataError> {
    let (mut claims, mut names) = (Vec::new(), BTreeSet::new());
    let mut scan = Scan::new(FORMAT, text);
    scan.list("{", "}", |scan| {
        let name = string(scan)?;
        scan.expect(":")?;
        if !names.insert(name.clone()) {
            return Err(bad(format!("the header gives the name {name:?} twice")));
        }
        if name == RESERVED_NAME {
            return texts(scan);
        }
        claims.push(claim(scan, name)?);
        Ok(())
    })?;
    scan.end()?;
    Ok(claims)
}

fn claim(scan: &mut Scan<'_>, name: String) -> Result<Claim, DataError> {
    let (mut dtype, mut shape, mut place) = (None, None, None);
    scan.list("{", "}", |scan| {
        let key = string(scan)?;
        scan.expect(":")?;
        match &key[..] {
            "dtype" => dtype = Some(string(scan)?),
            "shape" => shape = Some(scan.numbers("[", "]")?),
            "data_offsets" => place = <[usize; 2]>::try_from(scan.numbers("[", "]")?).ok(),
            other => return Err(bad(format!("key {other:?} of tensor {name:?} is unknown"))),
        }
        Ok(())
    })?;
    match (dtype, shape, place) {
        (Some(dtype), Some(shape), Some(place)) => Ok(Claim {
            name,
            dtype,
            shape,
            place,
        }),
        _ => Err(bad(format!(
            "tensor {name:?} has no dtype, no shape or no two data_offsets"
        ))),
    }
}

/// Takes an object of texts.
fn texts(scan: &mut Scan<'_>) -> Result<(), DataError> {
    scan.list("{", "}", |scan| {
        string(scan)?;
        scan.expect(":")?;
        string(scan).map(drop)
    })
}

/// Takes a string of JSON.
fn string(scan: &mut Scan<'_>) -> Result<String, DataError> {
    scan.expect("\"")?;
    let mut text = String::new();
    loop {
        text.push_str(scan.until(|letter| letter == '"' || letter == '\\'));
        match scan.letter() {
            Some('\\') => text.push(escaped(scan)?),
            Some(_) => return Ok(text),
            None => return Err(scan.unexpected("the end of a string")),
        }
    }
}

/// Takes what stands for one character after a backslash.
fn escaped(scan: &mut Scan<'_>) -> Result<char, DataError> {
    let letter = match scan.letter() {
        Some(letter @ ('"' | '\\' | '/')) => Some(letter),
        Some('b') => Some('\u{8}'),
        Some('f') => Some('\u{c}'),
        Some('n') => Some('\n'),
        Some('r') => Some('\r'),
        Some('t') => Some('\t'),
        Some('u') => {
            // One unit of UTF-16, or the first of the two that a rare character takes.
            let mut units = vec![unit(scan)?];
            if (0xd800..0xdc00).contains(&units[0])
                && scan.letter() == Some('\\')
                && scan.letter() == Some('u')
            {
                units.push(unit(scan)?);
            }
            char::decode_utf16(units).next().and_then(Result::ok)
        }
        _ => None,
    };
    letter.ok_or_else(|| scan.bad("the header has a backslash before what is no escape".into()))
}

/// Takes four hexadecimal digits.
fn unit(scan: &mut Scan<'_>) -> Result<u16, DataError> {
    let mut unit = 0;
    for _ in 0..4 {
        let digit = scan.letter().and_then(|letter| letter.to_digit(16));
        let digit = digit.and_then(|digit| u16::try_from(digit).ok());
        unit = unit * 16 + digit.ok_or_else(|| scan.unexpected("four digits"))?;
    }
    Ok(unit)
}

/// The name of a type; `None` if the format has none.
fn code(dtype: &FileType) -> Option<&'static str> {
    Some(match dtype {
        FileType::Tensor(DType::F32) => "F32",
        FileType::Tensor(DType::F64) => "F64",
        FileType::Tensor(DType::I32) => "I32",
        FileType::Tensor(DType::U32) => "U32",
        FileType::Tensor(DType::Bool) => "BOOL",
        FileType::Tensor(DType::F16) => "F16",
        FileType::Bf16 => "BF16",
        FileType::I64 => "I64",
        FileType::U64 => "U64",
        FileType::I16 => "I16",
        FileType::U16 => "U16",
        FileType::I8 => "I8",
        FileType::U8 => "U8",
        FileType::Other(_) => return None,
    })
}

/// A tensor to be written: its name, type and shape.
pub(super) type Described<'a> = (&'a str, DType, &'a [usize]);

/// All bytes before the elements of tensors that follow in this order.
pub(super) fn written<'a>(
    tensors: impl Iterator<Item = Described<'a>>,
) -> Result<Vec<u8>, DataError> {
    let (mut fields, mut names, mut end) = (Vec::new(), BTreeSet::from([RESERVED_NAME]), 0);
    for (name, dtype, shape) in tensors {
        if !names.insert(name) {
            let why = format!("the name {name:?} is taken");
            return Err(DataError::Unwritable {
                format: FORMAT,
                why,
            });
        }
        // All elements are in memory, so nothing overflows.
        let from = end;
        end += shape.iter().product::<usize>() * dtype.bytes();
        let code = code(&FileType::from(dtype)).unwrap_or_default();
        let name = quoted(name);
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let shape = shape.join(",");
        fields.push(format!(
            "{name}:{{\"dtype\":\"{code}\",\"shape\":[{shape}],\"data_offsets\":[{from},{end}]}}"
        ));
    }
    let mut text = format!("{{{}}}", fields.join(",")).into_bytes();
    text.resize(text.len().next_multiple_of(ALIGNMENT), b' ');
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if u32::from(letter) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Entry>, DataError> {
        let bytes = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        read(&mut &bytes[..]).map(|(_, entries)| entries)
    }

    #[test]
    fn names_keep_every_character() {
        let odd = "a \"b\" \\ / \n\u{1} ü 🦀";
        let bytes = written([(odd, DType::F16, &[3, 2][..])].into_iter()).unwrap();
        assert_eq!(bytes.len() % ALIGNMENT, 0);
        let entry = Entry {
            name: odd.to_owned(),
            dtype: FileType::from(DType::F16),
            shape: vec![3, 2],
            place: 0..12,
        };
        let (start, entries) = read(&mut &bytes[..]).unwrap();
        assert_eq!((start, entries), (bytes.len() as u64, vec![entry]));
        let escapes = r#"{"\u0041\ud83e\udd80\/\b\f\n\r\t": {"dtype":"BOOL","shape":[],"data_offsets":[0,1]}}"#;
        assert_eq!(read_text(escapes).unwrap()[0].name, "A🦀/\u{8}\u{c}\n\r\t");
    }

    #[test]
    fn tensors_come_in_the_order_of_their_elements() {
        let text = r#" {"__metadata__":{"format":"pt"},
            "b":{"data_offsets":[4,6],"dtype":"F16","shape":[1]},"a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}  "#;
        let names: Vec<String> = read_text(text)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(read_text("{}").unwrap(), []);
    }

    #[test]
    fn faults_of_a_header_are_named() {
        let tensor = |dtype: &str, shape: &str, place: &str| {
            format!(r#"{{"w":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{place}]}}}}"#)
        };
        let huge = usize::MAX.to_string();
        for (text, message) in [
            (
                String::new(),
                "safetensors: the header has \"\" in the place of {",
            ),
            (
                "{\"w".into(),
                "safetensors: the header has \"\" in the place of the end of a string",
            ),
            (
                r#"{"\x":0}"#.into(),
                "safetensors: the header has a backslash before what is no escape",
            ),
            (
                r#"{"\ud83e":0}"#.into(),
                "safetensors: the header has a backslash before what is no escape",
            ),
            (
                r#"{"w":{}}"#.into(),
                "safetensors: tensor \"w\" has no dtype, no shape or no two data_offsets",
            ),
            (
                r#"{"w":{"a":1}}"#.into(),
                "safetensors: key \"a\" of tensor \"w\" is unknown",
            ),
            (
                tensor("F32", "1", "0,4,8"),
                "safetensors: tensor \"w\" has no dtype, no shape or no two data_offsets",
            ),
            (
                tensor("F32", "-1", "0,4"),
                "safetensors: the header has \"-1],\\\"data_offsets\\\":[\" in the place of a size",
            ),
            (
                tensor("BF16", "2", "0,8"),
                "safetensors: bf16 elements of shape [2] stand at 0..8, not in 4 bytes from 0 on, in tensor \"w\"",
            ),
            (
                tensor("F8_E4M3", "2", "3,1"),
                "safetensors: F8_E4M3 elements of shape [2] stand at 3..1, not in 0 bytes from 0 on, in tensor \"w\"",
            ),
            (
                tensor("F32", &["1"; 65].join(","), "0,4"),
                "safetensors: the array has too many axes (rank 65; limit 64), in tensor \"w\"",
            ),
            (
                tensor("F32", "2", "0,4"),
                "safetensors: f32 elements of shape [2] stand at 0..4, not in 8 bytes from 0 on, in tensor \"w\"",
            ),
            (
                tensor("F32", "1", "4,8"),
                "safetensors: f32 elements of shape [1] stand at 4..8, not in 4 bytes from 0 on, in tensor \"w\"",
            ),
            (
                tensor("F32", "1", "4,0"),
                "safetensors: f32 elements of shape [1] stand at 4..0, not in 4 bytes from 0 on, in tensor \"w\"",
            ),
            (
                tensor("BOOL", &huge, &format!("0,{huge}")),
                "safetensors: bool elements of shape [18446744073709551615] exceed the address space, in tensor \"w\"",
            ),
            (
                r#"{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":0}"#.into(),
                "safetensors: the header gives the name \"w\" twice",
            ),
        ] {
            assert_eq!(read_text(&text).unwrap_err().to_string(), message, "{text}");
        }
    }
}

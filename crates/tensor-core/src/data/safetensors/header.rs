//! The header of a safetensors file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;

use super::FORMAT;
use crate::data::elements::check_rank;
use crate::data::scan::Scan;
use crate::dtype::DType;
use crate::error::DataError;
use crate::file_type::FileType;
use crate::shape::count_in_bytes;

/// The largest header that the format allows, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The key of the metadata, which is not the name of a tensor.
const RESERVED_NAME: &str = "__metadata__";
/// The alignment of the first element in the file, in bytes.
const ALIGNMENT: usize = 8;

/// The description of a tensor in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The name of the tensor.
    pub name: String,
    /// The type of the elements.
    pub dtype: FileType,
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The range of the element bytes, counted from the end of the header. The range begins where
    /// that of the previous entry ends.
    pub(super) place: Range<u64>,
}

impl Entry {
    /// Adds the name of the tensor to an error.
    pub(super) fn fault(&self, fault: DataError) -> DataError {
        in_tensor(&self.name)(fault)
    }
}

/// The checked header of a file.
#[derive(Debug)]
pub(super) struct Header {
    /// The position of the first element byte in the file.
    pub(super) start: u64,
    /// The tensors in the order of their elements.
    pub(super) entries: Vec<Entry>,
    pub(super) metadata: BTreeMap<String, String>,
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

/// Reads and checks the header.
pub(super) fn read(input: &mut impl Read) -> Result<Header, DataError> {
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
            "the header is too long ({length} bytes; limit {MAX_HEADER_BYTES})"
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
    let text = String::from_utf8(text).map_err(|_| bad("the header is not UTF-8".into()))?;
    let (mut claims, metadata) = parse(&text)?;
    // JSON objects are unordered. Sorted by range, each tensor has to begin where the previous one
    // ends.
    claims.sort_by_key(|claim| claim.place);
    let mut end = 0;
    let entries = claims.into_iter().map(|claim| {
        let name = claim.name.clone();
        claim.checked(&mut end).map_err(in_tensor(&name))
    });
    let entries: Result<_, _> = entries.collect();
    Ok(Header {
        start: size_of::<u64>() as u64 + length,
        entries: entries?,
        metadata,
    })
}

/// The unchecked description of a tensor in the header.
#[derive(Debug)]
struct RawEntry {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    place: [usize; 2],
}

impl RawEntry {
    /// Checks that the range has exactly the size of the elements and begins at `end`, and advances
    /// `end`.
    fn checked(self, end: &mut usize) -> Result<Entry, DataError> {
        let Self {
            name,
            dtype,
            shape,
            place: [from, to],
        } = self;
        check_rank(FORMAT, shape.len())?;
        let known = FileType::READ
            .into_iter()
            .find(|known| code(known) == Some(&dtype));
        let dtype = known.unwrap_or(FileType::Other(dtype));
        // The element size of an unknown type is unknown, so only the order of the range can be
        // checked.
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
            let expected = match dtype.bytes().and(n_bytes) {
                Some(n_bytes) => format!("{n_bytes} bytes from {end}"),
                None => format!("a range that begins at {end}"),
            };
            return Err(bad(format!(
                "{dtype} elements of shape {shape:?} are at {from}..{to} (expected {expected})"
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

/// Parses `{"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}`, which may
/// contain `"__metadata__": {"key": "text", …}`.
fn parse(text: &str) -> Result<(Vec<RawEntry>, BTreeMap<String, String>), DataError> {
    let (mut claims, mut names) = (Vec::new(), BTreeSet::new());
    let mut metadata = BTreeMap::new();
    let mut scan = Scan::new(FORMAT, text);
    scan.list("{", "}", |scan| {
        let name = string(scan)?;
        scan.expect(":")?;
        if !names.insert(name.clone()) {
            return Err(bad(format!("duplicate name {name:?} in the header")));
        }
        if name == RESERVED_NAME {
            metadata = texts(scan)?;
            return Ok(());
        }
        claims.push(claim(scan, name)?);
        Ok(())
    })?;
    scan.end()?;
    Ok((claims, metadata))
}

fn claim(scan: &mut Scan<'_>, name: String) -> Result<RawEntry, DataError> {
    let (mut dtype, mut shape, mut place) = (None, None, None);
    scan.list("{", "}", |scan| {
        let key = string(scan)?;
        scan.expect(":")?;
        let is_repeated = match &key[..] {
            "dtype" => dtype.replace(string(scan)?).is_some(),
            "shape" => shape.replace(scan.numbers("[", "]")?).is_some(),
            "data_offsets" => {
                let numbers = scan.numbers("[", "]")?;
                place
                    .replace(<[usize; 2]>::try_from(numbers).ok())
                    .is_some()
            }
            other => return Err(bad(format!("unknown key {other:?} of tensor {name:?}"))),
        };
        if is_repeated {
            return Err(bad(format!("duplicate key {key:?} of tensor {name:?}")));
        }
        Ok(())
    })?;
    match (dtype, shape, place.flatten()) {
        (Some(dtype), Some(shape), Some(place)) => Ok(RawEntry {
            name,
            dtype,
            shape,
            place,
        }),
        _ => Err(bad(format!(
            "tensor {name:?} lacks dtype, shape or two data_offsets"
        ))),
    }
}

/// Consumes and returns an object whose values are strings.
fn texts(scan: &mut Scan<'_>) -> Result<BTreeMap<String, String>, DataError> {
    let mut texts = BTreeMap::new();
    scan.list("{", "}", |scan| {
        let key = string(scan)?;
        scan.expect(":")?;
        let text = string(scan)?;
        if texts.contains_key(&key) {
            return Err(bad(format!("duplicate key {key:?} in the metadata")));
        }
        texts.insert(key, text);
        Ok(())
    })?;
    Ok(texts)
}

/// Consumes and returns a JSON string.
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

/// Consumes the rest of an escape sequence, after the backslash, and returns its character.
fn escaped(scan: &mut Scan<'_>) -> Result<char, DataError> {
    let letter = match scan.letter() {
        Some(letter @ ('"' | '\\' | '/')) => Some(letter),
        Some('b') => Some('\u{8}'),
        Some('f') => Some('\u{c}'),
        Some('n') => Some('\n'),
        Some('r') => Some('\r'),
        Some('t') => Some('\t'),
        Some('u') => {
            // One UTF-16 unit, or the first unit of a surrogate pair, which is followed by a second
            // escape sequence.
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
    letter.ok_or_else(|| scan.bad("invalid escape sequence in the header".into()))
}

/// Consumes four hexadecimal digits and returns their value.
fn unit(scan: &mut Scan<'_>) -> Result<u16, DataError> {
    let mut unit = 0;
    for _ in 0..4 {
        let digit = scan.letter().and_then(|letter| letter.to_digit(16));
        let digit = digit.and_then(|digit| u16::try_from(digit).ok());
        unit = unit * 16 + digit.ok_or_else(|| scan.unexpected("four hexadecimal digits"))?;
    }
    Ok(unit)
}

/// Returns the name of a type; `None` if the format does not have the type.
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

/// The name, type and shape of a tensor to write.
pub(super) type Described<'a> = (&'a str, DType, &'a [usize]);

/// Returns the bytes of a file before the elements, for tensors in the given order.
pub(super) fn written<'a>(
    tensors: impl Iterator<Item = Described<'a>>,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, DataError> {
    let (mut fields, mut names, mut end) = (Vec::new(), BTreeSet::from([RESERVED_NAME]), 0);
    if !metadata.is_empty() {
        let texts = metadata.iter();
        let texts: Vec<String> = texts
            .map(|(key, text)| format!("{}:{}", quoted(key), quoted(text)))
            .collect();
        fields.push(format!("\"{RESERVED_NAME}\":{{{}}}", texts.join(",")));
    }
    for (name, dtype, shape) in tensors {
        if !names.insert(name) {
            let why = format!("the name {name:?} is reserved or used twice");
            return Err(DataError::Unwritable {
                format: FORMAT,
                why,
            });
        }
        // All elements are in memory, so these sums do not overflow.
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
    if text.len() as u64 > MAX_HEADER_BYTES {
        return Err(DataError::Unwritable {
            format: FORMAT,
            why: format!(
                "the header is too long ({} bytes; limit {MAX_HEADER_BYTES})",
                text.len()
            ),
        });
    }
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

/// Returns a text as a JSON string.
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
        read(&mut &bytes[..]).map(|header| header.entries)
    }

    #[test]
    fn names_keep_every_character() {
        let odd = "a \"b\" \\ / \n\u{1} ü 🦀";
        let metadata = BTreeMap::from([(odd.to_owned(), odd.to_owned())]);
        let bytes = written([(odd, DType::F16, &[3, 2][..])].into_iter(), &metadata).unwrap();
        assert_eq!(bytes.len() % ALIGNMENT, 0);
        let entry = Entry {
            name: odd.to_owned(),
            dtype: FileType::from(DType::F16),
            shape: vec![3, 2],
            place: 0..12,
        };
        let header = read(&mut &bytes[..]).unwrap();
        assert_eq!(header.start, bytes.len() as u64);
        assert_eq!((header.entries, header.metadata), (vec![entry], metadata));
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
                "safetensors: invalid header (found \"\"; expected {)",
            ),
            (
                "{\"w".into(),
                "safetensors: invalid header (found \"\"; expected the end of a string)",
            ),
            (
                r#"{"\x":0}"#.into(),
                "safetensors: invalid escape sequence in the header",
            ),
            (
                r#"{"\ud83e":0}"#.into(),
                "safetensors: invalid escape sequence in the header",
            ),
            (
                r#"{"w":{}}"#.into(),
                "safetensors: tensor \"w\" lacks dtype, shape or two data_offsets",
            ),
            (
                r#"{"w":{"a":1}}"#.into(),
                "safetensors: unknown key \"a\" of tensor \"w\"",
            ),
            (
                tensor("F32", "1", "0,4,8"),
                "safetensors: tensor \"w\" lacks dtype, shape or two data_offsets",
            ),
            (
                tensor("F32", "-1", "0,4"),
                "safetensors: invalid header (found \"-1],\\\"data_offsets\\\":[\"; expected a size)",
            ),
            (
                tensor("BF16", "2", "0,8"),
                "safetensors: bf16 elements of shape [2] are at 0..8 (expected 4 bytes from 0), in tensor \"w\"",
            ),
            (
                tensor("F8_E4M3", "2", "3,1"),
                "safetensors: F8_E4M3 elements of shape [2] are at 3..1 (expected a range that begins at 0), in tensor \"w\"",
            ),
            (
                tensor("F8_E4M3", "2", "1,3"),
                "safetensors: F8_E4M3 elements of shape [2] are at 1..3 (expected a range that begins at 0), in tensor \"w\"",
            ),
            (
                tensor("F32", &["1"; 65].join(","), "0,4"),
                "safetensors: the array has too many axes (rank 65; limit 64), in tensor \"w\"",
            ),
            (
                tensor("F32", "2", "0,4"),
                "safetensors: f32 elements of shape [2] are at 0..4 (expected 8 bytes from 0), in tensor \"w\"",
            ),
            (
                tensor("F32", "1", "4,8"),
                "safetensors: f32 elements of shape [1] are at 4..8 (expected 4 bytes from 0), in tensor \"w\"",
            ),
            (
                tensor("F32", "1", "4,0"),
                "safetensors: f32 elements of shape [1] are at 4..0 (expected 4 bytes from 0), in tensor \"w\"",
            ),
            (
                tensor("BOOL", &huge, &format!("0,{huge}")),
                "safetensors: bool elements of shape [18446744073709551615] exceed the address space, in tensor \"w\"",
            ),
            (
                r#"{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":0}"#.into(),
                "safetensors: duplicate name \"w\" in the header",
            ),
            (
                r#"{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"dtype":"F64"}}"#.into(),
                "safetensors: duplicate key \"dtype\" of tensor \"w\"",
            ),
            (
                r#"{"w":{"data_offsets":[0],"data_offsets":[0,0],"dtype":"F64","shape":[0]}}"#
                    .into(),
                "safetensors: duplicate key \"data_offsets\" of tensor \"w\"",
            ),
            (
                r#"{"__metadata__":{"a":"1","a":"2"}}"#.into(),
                "safetensors: duplicate key \"a\" in the metadata",
            ),
            (
                r#"{"__metadata__":{"a":1}}"#.into(),
                "safetensors: invalid header (found \"1}}\"; expected \")",
            ),
        ] {
            assert_eq!(read_text(&text).unwrap_err().to_string(), message, "{text}");
        }
    }
}

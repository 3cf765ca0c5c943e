//! The header of an NPY file.

use std::io::Read;

use super::FORMAT;
use crate::data::elements::check_rank;
use crate::data::scan::Scan;
use crate::dtype::DType;
use crate::error::DataError;
use crate::file_type::ByteOrder;
use crate::file_type::FileType;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The largest accepted header, in bytes. `NumPy` writes shorter headers for all arrays of
/// supported types, so a longer header is an error and is not allocated.
const MAX_HEADER_BYTES: u32 = 1 << 16;
/// The alignment of the first element in the file, in bytes.
const ALIGNMENT: usize = 64;

/// The contents of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: FileType,
    pub(super) order: ByteOrder,
    pub(super) is_column_major: bool,
    pub(super) shape: Vec<usize>,
}

impl Header {
    pub(super) fn read(input: &mut impl Read) -> Result<Self, DataError> {
        let start: [u8; 8] = bytes(input)?;
        let (magic, version) = start.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(bad(format!(
                "the file does not begin with \\x93NUMPY (found {magic:02x?})"
            )));
        }
        let length = match version {
            [1, 0] => u32::from(u16::from_le_bytes(bytes(input)?)),
            [2 | 3, 0] => u32::from_le_bytes(bytes(input)?),
            other => return Err(bad(format!("unknown version {other:?}"))),
        };
        if length > MAX_HEADER_BYTES {
            return Err(bad(format!(
                "the header is too long ({length} bytes; limit {MAX_HEADER_BYTES})"
            )));
        }
        let mut text = Vec::new();
        let got = input
            .take(u64::from(length))
            .read_to_end(&mut text)
            .map_err(DataError::io(FORMAT))?;
        if got as u64 != u64::from(length) {
            return Err(bad(format!(
                "the file ends after {got} of {length} bytes of the header"
            )));
        }
        let text = String::from_utf8(text).map_err(|_| bad("the header is not UTF-8".into()))?;
        Self::parse(&text)
    }

    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, with the keys in any
    /// order.
    fn parse(text: &str) -> Result<Self, DataError> {
        let (mut descr, mut is_column_major, mut shape) = (None, None, None);
        let mut scan = Scan::new(FORMAT, text);
        scan.list("{", "}", |scan| {
            let key = string(scan)?;
            scan.expect(":")?;
            match key {
                "descr" => descr = Some(description(scan)?),
                "fortran_order" => is_column_major = Some(boolean(scan)?),
                "shape" => shape = Some(scan.numbers("(", ")")?),
                other => return Err(bad(format!("unknown key {other:?} in the header"))),
            }
            Ok(())
        })?;
        scan.end()?;
        let missing = |key: &str| bad(format!("key {key:?} is missing from the header"));
        let shape = shape.ok_or_else(|| missing("shape"))?;
        check_rank(FORMAT, shape.len())?;
        let (order, dtype) = element(descr.ok_or_else(|| missing("descr"))?);
        Ok(Self {
            dtype,
            order,
            is_column_major: is_column_major.ok_or_else(|| missing("fortran_order"))?,
            shape,
        })
    }
}

/// Consumes and returns a string. No string in such a header needs an escape sequence.
fn string<'a>(scan: &mut Scan<'a>) -> Result<&'a str, DataError> {
    for (quote, mark) in [("'", '\''), ("\"", '"')] {
        if scan.accept(quote) {
            let text = scan.until(|letter| letter == mark);
            scan.expect(quote)?;
            return Ok(text);
        }
    }
    Err(scan.unexpected("a string"))
}

/// Consumes and returns the name of a type. A structured type is a list; its beginning is returned,
/// so that the error about an unsupported type can show it.
fn description<'a>(scan: &mut Scan<'a>) -> Result<&'a str, DataError> {
    if !scan.accept("[") {
        return string(scan);
    }
    let list = scan.until(|letter| letter == ']');
    scan.expect("]")?;
    Ok(list)
}

fn boolean(scan: &mut Scan<'_>) -> Result<bool, DataError> {
    for (word, value) in [("True", true), ("False", false)] {
        if scan.accept(word) {
            return Ok(value);
        }
    }
    Err(scan.unexpected("True or False"))
}

/// Returns the byte order and the type of a description such as `<f4`. Without a byte order mark,
/// or with `=`, the order is that of this machine.
fn element(descr: &str) -> (ByteOrder, FileType) {
    let native = if cfg!(target_endian = "big") {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    };
    let (order, name) = match descr.split_at_checked(1) {
        Some((">", name)) => (ByteOrder::Big, name),
        // `|` marks types of one byte, for which the order is irrelevant.
        Some(("<" | "|", name)) => (ByteOrder::Little, name),
        Some(("=", name)) => (native, name),
        _ => (native, descr),
    };
    let known = FileType::READ
        .into_iter()
        .find(|dtype| code(dtype) == Some(name));
    (
        order,
        known.unwrap_or_else(|| FileType::Other(descr.to_owned())),
    )
}

/// Returns the name of a type; `None` if the format does not have the type.
fn code(dtype: &FileType) -> Option<&'static str> {
    Some(match dtype {
        FileType::Tensor(DType::F32) => "f4",
        FileType::Tensor(DType::F64) => "f8",
        FileType::Tensor(DType::I32) => "i4",
        FileType::Tensor(DType::U32) => "u4",
        FileType::Tensor(DType::Bool) => "b1",
        FileType::Tensor(DType::F16) => "f2",
        FileType::I64 => "i8",
        FileType::U64 => "u8",
        FileType::I16 => "i2",
        FileType::U16 => "u2",
        FileType::I8 => "i1",
        FileType::U8 => "u1",
        FileType::Bf16 | FileType::Other(_) => return None,
    })
}

/// Returns the bytes of a file before the elements.
pub(super) fn written(dtype: DType, shape: &[usize]) -> Result<Vec<u8>, DataError> {
    let order = if dtype == DType::Bool { '|' } else { '<' };
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    // A Python tuple of one element needs a comma, otherwise it is a number in parentheses.
    let comma = if sizes.len() == 1 { "," } else { "" };
    let code = code(&FileType::from(dtype)).unwrap_or_default();
    let sizes = sizes.join(", ");
    let mut text = format!(
        "{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({sizes}{comma}), }}"
    );
    let prefix = MAGIC.len() + 2 + size_of::<u16>();
    // Pad with spaces up to the newline that ends the header, so that the elements are aligned.
    let total = (prefix + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.push_str(&" ".repeat(total - prefix - text.len() - 1));
    text.push('\n');
    let length = u16::try_from(text.len()).map_err(|_| DataError::Unwritable {
        format: FORMAT,
        why: format!("a shape of {} sizes does not fit the header", shape.len()),
    })?;
    Ok([&MAGIC[..], &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat())
}

fn bad(why: String) -> DataError {
    DataError::BadHeader {
        format: FORMAT,
        why,
    }
}

fn bytes<const N: usize>(input: &mut impl Read) -> Result<[u8; N], DataError> {
    let mut out = [0; N];
    input
        .read_exact(&mut out)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                bad("the file ends within its first 12 bytes".into())
            }
            _ => DataError::io(FORMAT)(error),
        })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_the_bytes_that_numpy_writes() {
        let header = written(DType::F32, &[3]).unwrap();
        assert_eq!(header.len(), 128);
        assert_eq!(header[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        let text = std::str::from_utf8(&header[10..]).unwrap();
        assert_eq!(
            text.trim_end_matches([' ', '\n']),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"
        );
        assert!(text.ends_with(" \n"));
    }

    #[test]
    fn headers_are_read_as_python_would() {
        let expected = |shape: &[usize]| Header {
            dtype: FileType::from(DType::I32),
            order: ByteOrder::Big,
            is_column_major: true,
            shape: shape.to_vec(),
        };
        for (text, shape) in [
            (
                "{'descr': '>i4', 'fortran_order': True, 'shape': (), }",
                &[][..],
            ),
            (
                " { \"shape\":(2,3 , ) ,'fortran_order':True,\"descr\":'>i4'}  \n",
                &[2, 3],
            ),
            (
                "{'shape': (0, 18446744073709551615), 'descr': '>i4', 'fortran_order': True}",
                &[0, usize::MAX],
            ),
        ] {
            assert_eq!(Header::parse(text).unwrap(), expected(shape), "{text}");
        }
    }

    #[test]
    fn faults_of_a_header_are_named() {
        for (text, message) in [
            ("", "npy: invalid header (found \"\"; expected {)"),
            (
                "{'descr': '<f4'",
                "npy: invalid header (found \"\"; expected })",
            ),
            (
                "{'descr': '<f4'}",
                "npy: key \"shape\" is missing from the header",
            ),
            (
                "{'shape': (3), 'descr': '<f4', 'fortran_order': no}",
                "npy: invalid header (found \"no}\"; expected True or False)",
            ),
            (
                "{'shape': (-3,)}",
                "npy: invalid header (found \"-3,)}\"; expected a size)",
            ),
            (
                "{'shape': (99999999999999999999,)}",
                "npy: invalid header (found \"99999999999999999999\"; expected a size)",
            ),
            ("{'x': 1}", "npy: unknown key \"x\" in the header"),
            (
                "{} x",
                "npy: invalid header (found \"x\"; expected the end)",
            ),
        ] {
            assert_eq!(Header::parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn types_are_parsed_from_their_marks_and_names() {
        let other = |name: &str| FileType::Other(name.into());
        for (descr, expected) in [
            ("<i8", (ByteOrder::Little, FileType::I64)),
            (">u2", (ByteOrder::Big, FileType::U16)),
            ("|u1", (ByteOrder::Little, FileType::U8)),
            ("|i1", (ByteOrder::Little, FileType::I8)),
            ("<c8", (ByteOrder::Little, other("<c8"))),
            ("", (element("f4").0, other(""))),
            ("=f4", element("f4")),
        ] {
            assert_eq!(element(descr), expected, "{descr}");
        }
        assert_eq!(element("f4").1, FileType::Tensor(DType::F32));
    }

    #[test]
    fn more_axes_than_a_tensor_has_are_rejected() {
        let text = |rank: usize| {
            let sizes = "1,".repeat(rank);
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({sizes})}}")
        };
        assert!(Header::parse(&text(64)).is_ok());
        let error = Header::parse(&text(65)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "npy: the array has too many axes (rank 65; limit 64)"
        );
    }
}

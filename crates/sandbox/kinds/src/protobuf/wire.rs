//! Protobuf wire format, with the error texts of Go's decoder.

/// Field value by wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Field<'a> {
    pub(super) fn bytes(self, name: &str) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(other.wrong(name)),
        }
    }

    pub(super) fn text(self, name: &str) -> Result<String, String> {
        self.bytes(name)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Negative numbers are encoded as two's complement.
    pub(super) fn varint(self, name: &str) -> Result<i64, String> {
        match self {
            Self::Varint(number) => Ok(number.cast_signed()),
            other => Err(other.wrong(name)),
        }
    }

    pub(super) fn double(self, name: &str) -> Result<f64, String> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            other => Err(other.wrong(name)),
        }
    }

    fn wrong(self, name: &str) -> String {
        let form = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        };
        format!("proto: wrong wireType = {form} for field {name}")
    }
}

/// Iterator over the fields of a message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                let bytes = self.read_bytes(8)?;
                let bits = bytes.try_into().map(u64::from_le_bytes);
                Field::Fixed64(bits.unwrap_or_default())
            }
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.read_bytes(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => {
                self.read_bytes(4)?;
                Field::Fixed32
            }
            form => return Err(format!("proto: illegal wireType {form}")),
        };
        Ok(Some((tag >> 3, field)))
    }

    fn read_bytes(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| "unexpected EOF".to_owned())?;
        self.rest = rest;
        Ok(bytes)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.read_bytes(1)?.first().unwrap_or(&0);
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("proto: integer overflow".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Reader};

    #[test]
    fn numbers_lengths_and_ends_are_checked() {
        let mut reader = Reader::new(&[0x08, 0xac, 0x02, 0x12, 0x01, b'x']);
        assert_eq!(reader.next(), Ok(Some((1, Field::Varint(300)))));
        assert_eq!(reader.next(), Ok(Some((2, Field::Bytes(b"x")))));
        assert_eq!(reader.next(), Ok(None));
        for broken in [
            &[0x12, 0x05, b'x'][..],
            &[0x08],
            &[0x09, 1],
            &[0x0b],
            &[0xff; 11],
        ] {
            assert!(Reader::new(broken).next().is_err(), "{broken:?}");
        }
    }
}

//! The wire format: fields of a message, one after the other.

/// A field's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

/// Reads the fields of one message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field's number and payload; `None` at the end.
    pub(super) fn next_field(&mut self) -> Result<Option<(u32, Payload<'a>)>, &'static str> {
        let Some(tag) = self.next_varint()? else { return Ok(None) };
        let number = u32::try_from(tag >> 3).map_err(|_| "a field number is out of range")?;
        let payload = match tag & 7 {
            0 => Payload::Varint(self.next_varint()?.ok_or("it is cut off")?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.next_varint()?.ok_or("it is cut off")?;
                let length = usize::try_from(length).map_err(|_| "a length is out of range")?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.array::<4>()?;
                Payload::Fixed32
            }
            _ => return Err("a wire type is unknown"),
        };
        Ok(Some((number, payload)))
    }

    /// A number of at most ten bytes; `None` at the end.
    pub(super) fn next_varint(&mut self) -> Result<Option<u64>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(Some(number));
            }
        }
        Err("a number is too long")
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or("it is cut off")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or("it is cut off")?;
        self.rest = rest;
        Ok(*taken)
    }
}

//! Frames of RFC 6455. Pure.

use std::io;

/// Largest payload of a frame that is accepted. KubeVirt sends at most 10 KiB.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

/// Status 1000: the stream has ended.
pub(crate) const NORMAL_CLOSURE: &[u8] = &[0x03, 0xe8];

/// Length of which the next two bytes are the number.
const SHORT: u8 = 0x7e;
/// Length of which the next eight bytes are the number.
const LONG: u8 = 0x7f;

/// Side of a connection. Clients mask their frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn of(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) opcode: Opcode,
    pub(crate) payload: Vec<u8>,
}

/// A frame of a side.
pub(crate) fn encode(opcode: Opcode, payload: &[u8], role: Role, mask: [u8; 4]) -> Vec<u8> {
    let is_masked = if role == Role::Client { 0x80 } else { 0 };
    let mut frame = vec![0x80 | opcode.bits()];
    let length = payload.len();
    if length < SHORT.into() {
        frame.push(is_masked | u8::try_from(length).unwrap_or_default());
    } else if let Ok(length) = u16::try_from(length) {
        frame.push(is_masked | SHORT);
        frame.extend(length.to_be_bytes());
    } else {
        frame.push(is_masked | LONG);
        frame.extend((length as u64).to_be_bytes());
    }
    if role == Role::Client {
        frame.extend(mask);
        frame.extend(masked(payload, mask));
    } else {
        frame.extend(payload);
    }
    frame
}

fn masked(payload: &[u8], mask: [u8; 4]) -> impl Iterator<Item = u8> {
    payload
        .iter()
        .zip(mask.into_iter().cycle())
        .map(|(byte, key)| byte ^ key)
}

/// The first frame of a buffer that the peer of `role` sent, and its length; none if it is incomplete.
pub(crate) fn decode(buffer: &[u8], role: Role) -> io::Result<Option<(Frame, usize)>> {
    let violation =
        |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("WebSocket: {what}"));
    let [first, second, rest @ ..] = buffer else {
        return Ok(None);
    };
    if first & 0x70 != 0 {
        return Err(violation(
            "a frame has an extension that was not negotiated",
        ));
    }
    let opcode =
        Opcode::of(first & 0x0f).ok_or_else(|| violation("a frame has an unknown type"))?;
    let is_masked = second & 0x80 != 0;
    if is_masked == (role == Role::Client) {
        return Err(violation("a frame is masked by the wrong side"));
    }
    let (length, rest) = match second & 0x7f {
        SHORT => match rest.split_first_chunk::<2>() {
            Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
            None => return Ok(None),
        },
        LONG => match rest.split_first_chunk::<8>() {
            Some((length, rest)) => (u64::from_be_bytes(*length), rest),
            None => return Ok(None),
        },
        length => (u64::from(length), rest),
    };
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| violation("a frame is larger than 1 MiB"))?;
    let (mask, rest) = match (is_masked, rest.split_first_chunk::<4>()) {
        (false, _) => ([0; 4], rest),
        (true, Some((mask, rest))) => (*mask, rest),
        (true, None) => return Ok(None),
    };
    let Some(payload) = rest.get(..length) else {
        return Ok(None);
    };
    let frame = Frame {
        opcode,
        payload: masked(payload, mask).collect(),
    };
    let left = rest.len() - length;
    Ok(Some((frame, buffer.len() - left)))
}

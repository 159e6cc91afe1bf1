//! WebSocket tunnels (RFC 6455) as KubeVirt's subresources speak them: the subprotocol
//! `plain.kubevirt.io`, whose binary messages are the bytes of a stream.
//!
//! [`tunnel`] copies between a connection and a local stream in both directions at once, answers pings,
//! and ends with the first side that ends. Messages may be fragmented; text messages are skipped, as
//! KubeVirt does. Frames of a peer are bounded by [`MAX_FRAME_BYTES`].

mod frame;

use std::{io, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::digest;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

pub use frame::{MAX_FRAME_BYTES, Role};
use frame::{Opcode, decode, encode};

/// Subprotocol of streams.
pub const PROTOCOL: &str = "plain.kubevirt.io";

/// Bytes that are copied at once, as in KubeVirt.
const CHUNK: usize = 10 * 1024;
/// Idle proxies and timeouts close silent connections.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Value of `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`.
pub fn accept_key(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    BASE64_STANDARD.encode(hash)
}

/// Value of `Sec-WebSocket-Key` of 16 random bytes.
pub fn request_key(random: [u64; 2]) -> String {
    let [first, second] = random;
    BASE64_STANDARD.encode([first.to_be_bytes(), second.to_be_bytes()].concat())
}

/// What the writer sends besides the bytes of the local stream.
enum Control {
    Pong(Vec<u8>),
    Close,
}

/// Copies between a connection whose handshake is done and a local stream, until one of them ends.
///
/// # Errors
/// If the connection breaks, or the peer violates the protocol.
pub async fn tunnel(
    connection: impl AsyncRead + AsyncWrite,
    role: Role,
    local_reader: impl AsyncRead,
    local_writer: impl AsyncWrite,
) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(connection);
    let (send, receive) = mpsc::channel(16);
    let incoming = receive_frames(reader, role, local_writer, send);
    let outgoing = send_frames(writer, role, local_reader, receive);
    tokio::pin!(incoming, outgoing);
    tokio::select! {
        ended = &mut incoming => ended,
        ended = &mut outgoing => {
            ended?;
            // The peer answers the close, and may have bytes on their way.
            let rest = tokio::time::timeout(Duration::from_secs(5), incoming);
            rest.await.unwrap_or(Ok(()))
        }
    }
}

async fn receive_frames(
    reader: impl AsyncRead,
    role: Role,
    local: impl AsyncWrite,
    send: mpsc::Sender<Control>,
) -> io::Result<()> {
    tokio::pin!(reader, local);
    let mut buffer = Vec::new();
    // Whether the frames that continue a message belong to a binary one.
    let mut is_binary = false;
    let mut chunk = vec![0; CHUNK];
    loop {
        while let Some((frame, length)) = decode(&buffer, role)? {
            buffer.drain(..length);
            match frame.opcode {
                Opcode::Binary => is_binary = true,
                Opcode::Text => is_binary = false,
                _ => {}
            }
            match frame.opcode {
                Opcode::Binary | Opcode::Continuation if is_binary => {
                    local.write_all(&frame.payload).await?;
                    local.flush().await?;
                }
                Opcode::Ping => {
                    // Without a writer the connection ends anyway.
                    let _ = send.send(Control::Pong(frame.payload)).await;
                }
                Opcode::Close => {
                    let _ = send.send(Control::Close).await;
                    local.shutdown().await?;
                    return Ok(());
                }
                Opcode::Binary | Opcode::Continuation | Opcode::Text | Opcode::Pong => {}
            }
        }
        match reader.read(&mut chunk).await? {
            0 => {
                local.shutdown().await?;
                return Ok(());
            }
            length => buffer.extend_from_slice(chunk.get(..length).unwrap_or_default()),
        }
    }
}

async fn send_frames(
    writer: impl AsyncWrite,
    role: Role,
    local: impl AsyncRead,
    mut receive: mpsc::Receiver<Control>,
) -> io::Result<()> {
    tokio::pin!(writer, local);
    let mut mask = Mask::new();
    let mut ping = interval(PING_INTERVAL);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let mut chunk = vec![0; CHUNK];
    loop {
        let (opcode, payload): (Opcode, &[u8]) = tokio::select! {
            control = receive.recv() => match control {
                Some(Control::Pong(payload)) => {
                    let frame = encode(Opcode::Pong, &payload, role, mask.next());
                    writer.write_all(&frame).await?;
                    writer.flush().await?;
                    continue;
                }
                Some(Control::Close) | None => (Opcode::Close, frame::NORMAL_CLOSURE),
            },
            _ = ping.tick() => (Opcode::Ping, b"keep alive"),
            read = local.read(&mut chunk) => match read? {
                0 => (Opcode::Close, frame::NORMAL_CLOSURE),
                length => (Opcode::Binary, chunk.get(..length).unwrap_or_default()),
            },
        };
        let frame = encode(opcode, payload, role, mask.next());
        writer.write_all(&frame).await?;
        writer.flush().await?;
        if opcode == Opcode::Close {
            return Ok(());
        }
    }
}

/// Masking keys of a client. They protect caches of old proxies, which TLS makes irrelevant, so they only
/// differ from frame to frame.
struct Mask(u32);

impl Mask {
    fn new() -> Self {
        Self(0x9e37_79b9)
    }

    fn next(&mut self) -> [u8; 4] {
        self.0 = self.0.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        self.0.to_be_bytes()
    }
}

#[cfg(test)]
mod tests;

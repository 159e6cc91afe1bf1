use rstest::rstest;
use tokio::io::{duplex, split};

use super::{frame::Frame, *};

#[test]
fn keys_are_those_of_the_specification() {
    // The example of RFC 6455, section 1.3.
    assert_eq!(
        accept_key("dGhlIHNhbXBsZSBub25jZQ=="),
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    assert_eq!(request_key([0, 1]), "AAAAAAAAAAAAAAAAAAAAAQ==");
}

#[rstest]
#[case(0)]
#[case(125)]
#[case(126)]
#[case(65_535)]
#[case(65_536)]
fn frames_of_any_length_are_decoded(#[case] length: usize) {
    let payload: Vec<u8> = (0..length)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    for (sender, receiver) in [(Role::Client, Role::Server), (Role::Server, Role::Client)] {
        let mut bytes = encode(Opcode::Binary, &payload, sender, [1, 2, 3, 4]);
        let whole = bytes.len();
        for cut in [1, 2, 5, whole / 2, whole - 1] {
            let cut = cut.min(whole - 1);
            assert_eq!(decode(&bytes[..cut], receiver).unwrap(), None, "{cut}");
        }
        bytes.push(0x82);
        let expected = Frame {
            opcode: Opcode::Binary,
            payload: payload.clone(),
        };
        assert_eq!(decode(&bytes, receiver).unwrap(), Some((expected, whole)));
    }
}

#[test]
fn violations_are_errors() {
    let masked = encode(Opcode::Binary, b"a", Role::Client, [0; 4]);
    assert!(decode(&masked, Role::Client).is_err());
    assert!(decode(&[0xf2, 0], Role::Client).is_err());
    assert!(decode(&[0x83, 0], Role::Client).is_err());
    let huge = [0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0];
    assert!(decode(&huge, Role::Client).is_err());
}

/// Runs a tunnel between two local streams, each with a peer.
async fn connected(
    test: impl AsyncFnOnce(tokio::io::DuplexStream, tokio::io::DuplexStream),
) -> (io::Result<()>, io::Result<()>) {
    let (client, server) = duplex(1000);
    let (client_local, near) = duplex(1000);
    let (server_local, far) = duplex(1000);
    let (client_reader, client_writer) = split(client_local);
    let (server_reader, server_writer) = split(server_local);
    let (client, server, ()) = tokio::join!(
        tunnel(client, Role::Client, client_reader, client_writer),
        tunnel(server, Role::Server, server_reader, server_writer),
        test(near, far),
    );
    (client, server)
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_in_both_directions_at_once_and_the_end_is_passed_on() {
    let data: Vec<u8> = (0..300_000_u32).map(|at| at.to_be_bytes()[3]).collect();
    let expected = data.clone();
    let ended = Box::pin(connected(async move |near, far| {
        let (mut near_reader, mut near_writer) = split(near);
        let (mut far_reader, mut far_writer) = split(far);
        let echo = tokio::io::copy(&mut far_reader, &mut far_writer);
        let send = async {
            near_writer.write_all(&data).await.unwrap();
            // Longer than the interval of pings.
            tokio::time::sleep(Duration::from_secs(90)).await;
            near_writer.write_all(b"end").await.unwrap();
        };
        let receive = async {
            let mut received = vec![0; expected.len() + 3];
            near_reader.read_exact(&mut received).await.unwrap();
            assert!(received.starts_with(&expected) && received.ends_with(b"end"));
        };
        tokio::select! {
            _ = echo => panic!("the echo ended"),
            ((), ()) = async { tokio::join!(send, receive) } => {}
        }
    }))
    .await;
    assert!(matches!(ended, (Ok(()), Ok(()))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn fragments_belong_together_and_text_is_skipped() {
    let (client, mut server) = duplex(1000);
    let (local, mut near) = duplex(1000);
    let (reader, writer) = split(local);
    let peer = async {
        let mut fragment = encode(Opcode::Binary, b"he", Role::Server, [0; 4]);
        fragment[0] &= 0x7f;
        for frame in [
            encode(Opcode::Text, b"noise", Role::Server, [0; 4]),
            fragment,
            encode(Opcode::Ping, b"p", Role::Server, [0; 4]),
            encode(Opcode::Continuation, b"llo", Role::Server, [0; 4]),
            encode(Opcode::Close, frame::NORMAL_CLOSURE, Role::Server, [0; 4]),
        ] {
            server.write_all(&frame).await.unwrap();
        }
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "hello");
    };
    let (ended, ()) = tokio::join!(tunnel(client, Role::Client, reader, writer), peer);
    ended.unwrap();
}

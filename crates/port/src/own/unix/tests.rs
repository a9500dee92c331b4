//! Tests of the framing, and of ports on UNIX sockets.

use super::*;

fn all(source: &mut impl FrameSource) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut buf = vec![0; FRAME_MAX];
    while let Ok(len) = source.recv(&mut buf) {
        frames.push(buf[..len].to_vec());
    }
    frames
}

#[test]
fn frames_of_every_length_arrive_whole() {
    let (left, right) = UnixStream::pair().unwrap();
    let ((mut source, _), (_, mut sink)) = (stream(left).unwrap(), stream(right).unwrap());
    let frames: Vec<Vec<u8>> = [0, 1, 60, 1514, 9000, FRAME_MAX, 14].map(|len| vec![len as u8; len]).into();
    let mut received = Vec::new();
    for frame in &frames {
        while let Err(error) = sink.send(frame) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            received.extend(all(&mut source));
        }
    }
    while let Err(error) = sink.flush() {
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        received.extend(all(&mut source));
    }
    received.extend(all(&mut source));
    assert_eq!(received, frames);
}

/// Bytes that arrive one by one give the same frames.
#[test]
fn a_frame_may_arrive_in_pieces() {
    let (left, mut right) = UnixStream::pair().unwrap();
    let (mut source, _) = stream(left).unwrap();
    let mut buf = [0; 100];
    for byte in [0, 0, 0, 2, 7, 8, 0, 0, 0, 1] {
        right.write_all(&[byte]).unwrap();
        match source.recv(&mut buf) {
            Ok(len) => assert_eq!((byte, &buf[..len]), (8, &[7, 8][..])),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    drop(right);
    assert_eq!(source.recv(&mut buf).unwrap_err().kind(), ErrorKind::Other, "the end is within a frame");
}

#[test]
fn a_length_that_cannot_be_is_an_error_and_the_end_is_normal() {
    let (left, mut right) = UnixStream::pair().unwrap();
    let (mut source, mut sink) = stream(left).unwrap();
    right.write_all(&[0xff; 8]).unwrap();
    assert_eq!(source.recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::InvalidData);
    drop(right);
    assert_eq!(sink.send(&[0; 60]).unwrap_err().kind(), ErrorKind::BrokenPipe);
    let (left, right) = UnixStream::pair().unwrap();
    let (mut source, _) = stream(left).unwrap();
    drop(right);
    assert_eq!(source.recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn a_datagram_is_a_frame() {
    let (left, right) = UnixDatagram::pair().unwrap();
    let ((mut source, _), (_, mut sink)) = (datagrams(left).unwrap(), datagrams(right).unwrap());
    sink.send(&[1; 60]).unwrap();
    sink.send(&[2; 1514]).unwrap();
    assert_eq!(all(&mut source), [vec![1; 60], vec![2; 1514]]);
}

mod ports;

//! A server with one event loop, which counts the bytes of 100 connections.

use linerate::Host;
use linerate::net::{Poll, TcpListener, TcpStream};
use std::io::{self, ErrorKind, Read, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder().build()?;
    let listener = TcpListener::bind(&host, "127.0.0.1:80")?;
    listener.set_nonblocking(true)?;
    let (poll, mut ready, mut streams, mut open, mut bytes) = (Poll::new(&host), Vec::new(), Vec::new(), 100, 0);
    poll.add(&listener, usize::MAX)?;
    std::thread::spawn(move || -> io::Result<()> {
        (0..100).try_for_each(|_| TcpStream::connect(&host, "127.0.0.1:80")?.write_all(&[7; 10_000]))
    });
    while open > 0 {
        poll.wait(&mut ready, None)?;
        for token in ready.drain(..) {
            while token == usize::MAX
                && let Ok((stream, _)) = listener.accept()
            {
                stream.set_nonblocking(true)?;
                poll.add(&stream, streams.len())?;
                streams.push(stream);
            }
            let Some(mut stream) = streams.get(token) else { continue };
            let has_ended = loop {
                match stream.read(&mut [0; 4096]) {
                    Ok(n) if n > 0 => bytes += n,
                    Err(why) if why.kind() == ErrorKind::WouldBlock => break false,
                    _ => break true,
                }
            };
            open -= usize::from(has_ended && poll.remove(stream).is_ok());
        }
    }
    println!("{bytes} bytes from 100 connections");
    Ok(())
}

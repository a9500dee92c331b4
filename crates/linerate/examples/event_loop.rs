//! A server with one event loop, which counts the bytes of 100 connections.

use linerate::Host;
use linerate::net::{Poll, TcpListener, TcpStream};
use std::io::{self, Read, Write};

const CLIENTS: usize = 100;

/// Receives until all clients have ended. Returns the number of bytes.
fn serve(host: &Host, listener: &TcpListener) -> io::Result<usize> {
    let (poll, mut ready) = (Poll::new(host), Vec::new());
    let (mut streams, mut open, mut bytes) = (Vec::new(), CLIENTS, 0);
    poll.add(listener, CLIENTS)?;
    while open > 0 {
        poll.wait(&mut ready, None)?;
        for token in ready.drain(..) {
            while let (CLIENTS, Ok((stream, _))) = (token, listener.accept()) {
                stream.set_nonblocking(true)?;
                poll.add(&stream, streams.len())?;
                streams.push(stream);
            }
            let Some(mut stream) = streams.get(token) else { continue };
            while let Ok(n) = stream.read(&mut [0; 4096]) {
                bytes += n;
                if n == 0 {
                    open -= 1;
                    poll.remove(stream)?;
                    break;
                }
            }
        }
    }
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Host::builder().port("pair:cable").addr("10.0.0.1/24").build()?;
    let client = Host::builder().port("pair:cable").addr("10.0.0.2/24").build()?;
    let listener = TcpListener::bind(&server, "10.0.0.1:80")?;
    listener.set_nonblocking(true)?;
    let counting = std::thread::spawn(move || serve(&server, &listener));
    for _ in 0..CLIENTS {
        TcpStream::connect(&client, "10.0.0.1:80")?.write_all(&[7; 10_000])?;
    }
    println!("{} bytes from {CLIENTS} connections", counting.join().expect("no panic")?);
    Ok(())
}

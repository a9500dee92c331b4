//! A TCP echo server with a thread for each connection, and eight clients on another host.

use linerate::Host;
use linerate::net::{TcpListener, TcpStream};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::thread;

fn serve(listener: &TcpListener) -> io::Result<()> {
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || io::copy(&mut &stream, &mut &stream));
    }
    Ok(())
}

/// Returns whether the server sends back what it receives.
fn is_echoed(mut stream: TcpStream, data: Vec<u8>) -> io::Result<bool> {
    let (mut reader, mut echo, sent) = (stream.try_clone()?, Vec::new(), data.clone());
    let writer = thread::spawn(move || stream.write_all(&sent).and_then(|()| stream.shutdown(Shutdown::Write)));
    reader.read_to_end(&mut echo)?;
    Ok(matches!(writer.join(), Ok(Ok(()))) && echo == data)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Host::builder().name("server").port("pair:cable").addr("10.0.0.1/24").build()?;
    let client = Host::builder().name("client").port("pair:cable").addr("10.0.0.2/24").build()?;
    let listener = TcpListener::bind(&server, "10.0.0.1:7")?;
    thread::spawn(move || serve(&listener));
    for n in 0..8 {
        let stream = TcpStream::connect(&client, "10.0.0.1:7")?;
        assert!(is_echoed(stream, vec![n; 1 << 20])?);
    }
    println!("8 connections echoed a megabyte each");
    Ok(())
}

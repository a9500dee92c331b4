//! A port of one's own: Ethernet frames over a UNIX stream, each after its length in 4 bytes.
use linerate::Host;
use linerate::net::UdpSocket;
use linerate::port::{FrameReceiver, FrameSender, channel};
use std::io::{self, Read, Write};
use std::{os::unix::net::UnixStream, thread, time::Duration};

fn receive(mut stream: UnixStream, frames: &FrameSender) -> io::Result<()> {
    let mut len = [0; 4];
    loop {
        stream.read_exact(&mut len)?;
        let mut frame = vec![0; u32::from_be_bytes(len).min(65_535) as usize];
        stream.read_exact(&mut frame)?;
        frames.send(&frame)?;
    }
}

fn send(mut stream: UnixStream, frames: &FrameReceiver) -> io::Result<()> {
    loop {
        let frame = frames.recv(Duration::MAX)?;
        stream.write_all(&[&(frame.len() as u32).to_be_bytes(), &frame[..]].concat())?;
    }
}

fn host_on(stream: UnixStream, addr: &str) -> Result<Host, Box<dyn std::error::Error>> {
    let ((end, sender, receiver), reader) = (channel(256), stream.try_clone()?);
    let host = Host::builder().channel("unix0", end).addr(addr).build()?;
    thread::spawn(move || receive(reader, &sender));
    thread::spawn(move || send(stream, &receiver));
    Ok(host)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (left, right) = UnixStream::pair()?;
    let (a, b) = (host_on(left, "10.0.0.1/24")?, host_on(right, "10.0.0.2/24")?);
    let (from, to) = (UdpSocket::bind(&a, "10.0.0.1:0")?, UdpSocket::bind(&b, "10.0.0.2:9")?);
    from.send_to(b"over a UNIX stream", "10.0.0.2:9")?;
    println!("received {} bytes", to.recv(&mut [0; 32])?);
    Ok(())
}

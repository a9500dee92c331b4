//! A UDP echo server on a TAP device: `udp_echo [PORT [ADDRESS/LENGTH]]`.
//!
//! ```text
//! sudo ip tuntap add tap0 mode tap user $USER
//! sudo ip addr add 10.0.0.1/24 dev tap0 && sudo ip link set tap0 up
//! cargo run --example udp_echo &
//! echo hello | nc -u -w1 10.0.0.2 7
//! ```

use linerate::Host;
use linerate::net::UdpSocket;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let port = args.next().unwrap_or("tap:tap0".to_owned());
    let addr = args.next().unwrap_or("10.0.0.2/24".to_owned());
    let host = Host::builder().port(&port).addr(&addr).build_local()?;
    let socket = UdpSocket::bind(&host, "0.0.0.0:7")?;
    println!("echoing datagrams to {addr}, port 7, on {port}");
    let mut buf = [0; 65_535];
    loop {
        let (len, from) = socket.recv_from(&mut buf)?;
        socket.send_to(&buf[..len], from)?;
    }
}

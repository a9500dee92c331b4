//! Tasks of tokio on one thread, which also runs both hosts: TCP and UDP, server and client.
use linerate::net::tokio::{TcpListener, TcpStream, UdpSocket};
use linerate::{Driver, Host, LocalHost};
use tokio::io::AsyncReadExt;

async fn serve(listener: TcpListener<LocalHost>, socket: UdpSocket<LocalHost>) -> std::io::Result<()> {
    let mut datagram = [0; 1500];
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (mut reader, mut writer) = accepted?.0.into_split();
                tokio::task::spawn_local(async move { tokio::io::copy(&mut reader, &mut writer).await });
            }
            received = socket.recv_from(&mut datagram) => {
                let (len, from) = received?;
                socket.send_to(&datagram[..len], from).await?;
            }
        }
    }
}

#[tokio::main(flavor = "local")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let a = Host::builder().name("a").port("pair:tasks").addr("10.0.0.1/24").build_local()?;
    let b = Host::builder().name("b").port("pair:tasks").addr("10.0.0.2/24").build_local()?;
    let (mut echo, mut text, at) = ([0; 16], String::new(), "10.0.0.1:7");
    let driver = Driver::new([a.clone(), b.clone()]);
    tokio::task::spawn_local(async move { driver.run().await });
    tokio::task::spawn_local(serve(TcpListener::bind(&a, at).await?, UdpSocket::bind(&a, at).await?));
    let socket = UdpSocket::bind(&b, "10.0.0.2:0").await?;
    socket.send_to(b"datagram", at).await?;
    let (len, _) = socket.recv_from(&mut echo).await?;
    let mut stream = TcpStream::connect(&b, at).await?;
    stream.write_all(b"stream").await?;
    stream.shutdown().await?;
    stream.read_to_string(&mut text).await?;
    println!("echoed: {}, {text}", String::from_utf8_lossy(&echo[..len]));
    Ok(())
}

//! A web server: axum on a host of its own, and a client on another host.

use axum::Router;
use axum::routing::get;
use axum::serve::Listener;
use linerate::Host;
use linerate::net::tokio::{TcpListener, TcpStream};
use std::net::SocketAddr;
use tokio::io::AsyncReadExt;

struct Web(TcpListener);

impl Listener for Web {
    type Io = TcpStream;
    type Addr = SocketAddr;
    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        self.0.accept().await.expect("the host runs")
    }
    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Host::builder().name("server").port("pair:web").addr("10.0.0.1/24").build()?;
    let client = Host::builder().name("client").port("pair:web").addr("10.0.0.2/24").build()?;
    let app = Router::new().route("/", get(|| async { "hello from axum" }));
    let listener = Web(TcpListener::bind(&server, "10.0.0.1:80").await?);
    tokio::spawn(async { axum::serve(listener, app).await });

    let mut stream = TcpStream::connect(&client, "10.0.0.1:80").await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("{answer}");
    assert!(answer.ends_with("hello from axum"));
    Ok(())
}

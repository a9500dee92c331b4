//! QUIC over two hosts: an endpoint of quinn on each, with a certificate of its own.

use linerate::{Host, net};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use std::{error::Error, sync::Arc};

fn endpoint(host: &Host, addr: &str, server: Option<ServerConfig>) -> Result<Endpoint, Box<dyn Error>> {
    let socket = net::quinn::bind(host, addr.parse()?)?;
    Ok(Endpoint::new_with_abstract_socket(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let a = Host::builder().port("pair:quic").addr("10.0.0.1/24").build()?;
    let b = Host::builder().port("pair:quic").addr("10.0.0.2/24").build()?;
    let certified = rcgen::generate_simple_self_signed(["example.org".to_owned()])?;
    let (certificate, key) = (certified.cert.der().clone(), certified.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![certificate.clone()], key.try_into()?)?;
    let server = endpoint(&a, "10.0.0.1:4433", Some(server))?;
    let serving = tokio::spawn(async move {
        let connection = server.accept().await.ok_or("no connection")?.await?;
        let (mut writer, mut reader) = connection.accept_bi().await?;
        let text = reader.read_to_end(10_000_000).await?;
        writer.write_all(&text).await?;
        writer.finish()?;
        connection.closed().await;
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    });

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = endpoint(&b, "10.0.0.2:0", None)?;
    client.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots))?);
    let connection = client.connect("10.0.0.1:4433".parse()?, "example.org")?.await?;
    let (mut writer, mut reader) = connection.open_bi().await?;
    let text = vec![7; 5_000_000];
    let reading = tokio::spawn(async move { reader.read_to_end(10_000_000).await });
    writer.write_all(&text).await?;
    writer.finish()?;
    assert_eq!(reading.await??, text);
    connection.close(0u32.into(), b"done");
    println!("{} bytes echoed", text.len());
    serving.await?.map_err(|why| why.to_string().into())
}

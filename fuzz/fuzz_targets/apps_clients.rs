//! Fuzz target: answers of a server to the FTP, RESP and file service clients.
#![no_main]

linerate_fuzz::target!(apps::fuzz::clients);

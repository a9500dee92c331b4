//! Answers to clients of FTP, RESP and the file service.
#![no_main]

linerate_fuzz::target!(apps::fuzz::clients);

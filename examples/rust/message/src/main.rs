//! A message to itself, with the crate `ibverbs`.
//!
//!     cd examples/rust/message && cargo build && nonic run -- target/debug/nonic-message

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let devices = ibverbs::devices()?;
    let device = devices.iter().next().ok_or("there is no device: start it with `nonic run -- PROGRAM`")?;
    let context = device.open()?;
    let queue = context.create_cq(16, 0)?;
    let domain = context.alloc_pd()?;
    let builder =
        domain.create_qp(&queue, &queue, ibverbs::ibv_qp_type::IBV_QPT_RC).set_gid_index(0).build()?;
    let own = builder.endpoint();
    let mut pair = builder.handshake(own)?;

    let mut memory = domain.allocate::<u64>(2)?;
    memory[1] = 0x42;
    // SAFETY: the memory lives, and nobody touches it, until both requests have completed below.
    unsafe {
        pair.post_receive(&mut memory, ..1, 2)?;
        pair.post_send(&mut memory, 1.., 1)?;
    }
    let mut done = 0;
    let mut completions = [ibverbs::ibv_wc::default(); 2];
    while done < 2 {
        for completion in queue.poll(&mut completions)? {
            if let Some((status, vendor)) = completion.error() {
                return Err(format!("request {}: {status:?}, {vendor}", completion.wr_id()).into());
            }
            done += 1;
        }
    }
    println!("received {:#x}", memory[0]);
    Ok(())
}

//! Writes into its own memory, and when each of them completed, with the crate `sideway`: an extended completion queue.
//!
//!     cd examples/rust/timed_writes && cargo build && nonic run -- target/debug/nonic-timed_writes

use std::error::Error;
use std::sync::Arc;

use sideway::ibverbs::AccessFlags;
use sideway::ibverbs::address::AddressHandleAttribute;
use sideway::ibverbs::completion::{
    CreateCompletionQueueWorkCompletionFlags as Flags, GenericCompletionQueue, PollCompletionQueueError,
};
use sideway::ibverbs::device::DeviceList;
use sideway::ibverbs::device_context::Mtu;
use sideway::ibverbs::queue_pair::{
    PostSendGuard, QueuePair, QueuePairAttribute, QueuePairState, SendOperationFlags, SetScatterGatherEntry,
    WorkRequestFlags,
};

const WRITES: u64 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let devices = DeviceList::new()?;
    let device = devices.iter().next().ok_or("there is no device: start it with `nonic run -- PROGRAM`")?;
    let context = device.open()?;
    let domain = context.alloc_pd()?;
    let mut memory = [0u64; 1 + WRITES as usize];
    memory[0] = 0x42;
    let access = AccessFlags::LocalWrite | AccessFlags::RemoteWrite;
    let address = memory.as_mut_ptr() as u64;
    // SAFETY: the array outlives the region, and is read only after the last write.
    let region = unsafe { domain.reg_mr(address as usize, size_of_val(&memory), access)? };

    let mut builder = context.create_cq_builder();
    builder.setup_cqe(16).setup_wc_flags(Flags::StandardFlags | Flags::CompletionTimestamp);
    let queue = builder.build_ex()?;
    let mut builder = domain.create_qp_builder();
    builder
        .setup_send_cq(GenericCompletionQueue::from(Arc::clone(&queue)))
        .setup_recv_cq(GenericCompletionQueue::from(Arc::clone(&queue)))
        .setup_send_ops_flags(SendOperationFlags::Write);
    let mut pair = builder.build_ex()?;
    connect_to_itself(&context, &mut pair, access)?;

    let mut requests = pair.start_post_send();
    for number in 1..=WRITES {
        let request = requests
            .construct_wr(number, WorkRequestFlags::Signaled)
            .setup_write(region.rkey(), address + 8 * number);
        // SAFETY: the eight bytes are of the region, and stay what they are.
        unsafe { request.setup_sge(region.lkey(), address, 8) };
    }
    requests.post()?;

    let mut times = Vec::new();
    while times.len() < WRITES as usize {
        match queue.start_poll() {
            Ok(mut batch) => {
                while let Some(completion) = batch.next() {
                    if completion.status() != 0 {
                        return Err(format!("write {}: {}", completion.wr_id(), completion.status()).into());
                    }
                    times.push(completion.completion_timestamp());
                }
            }
            Err(PollCompletionQueueError::CompletionQueueEmpty) => {}
            Err(error) => return Err(error.into()),
        }
    }
    println!("{WRITES} writes of 8 bytes, in order: {}", times.is_sorted());
    println!("the last completed {} ns after the first", times[times.len() - 1] - times[0]);
    println!("all arrived: {}", memory.iter().all(|word| *word == 0x42));
    Ok(())
}

fn connect_to_itself(
    context: &Arc<sideway::ibverbs::device_context::DeviceContext>,
    pair: &mut impl QueuePair,
    access: AccessFlags,
) -> Result<(), Box<dyn Error>> {
    let mut attribute = QueuePairAttribute::new();
    attribute
        .setup_state(QueuePairState::Init)
        .setup_pkey_index(0)
        .setup_port(1)
        .setup_access_flags(access);
    pair.modify(&attribute)?;
    let mut path = AddressHandleAttribute::new();
    path.setup_dest_lid(context.query_port(1)?.lid())
        .setup_port(1)
        .setup_service_level(0)
        .setup_grh_src_gid_index(0)
        .setup_grh_dest_gid(&context.query_gid(1, 0)?)
        .setup_grh_hop_limit(64);
    let mut attribute = QueuePairAttribute::new();
    attribute
        .setup_state(QueuePairState::ReadyToReceive)
        .setup_path_mtu(Mtu::Mtu1024)
        .setup_dest_qp_num(pair.qp_number())
        .setup_rq_psn(0)
        .setup_max_dest_read_atomic(0)
        .setup_min_rnr_timer(12)
        .setup_address_vector(&path);
    pair.modify(&attribute)?;
    let mut attribute = QueuePairAttribute::new();
    attribute
        .setup_state(QueuePairState::ReadyToSend)
        .setup_sq_psn(0)
        .setup_timeout(14)
        .setup_retry_cnt(7)
        .setup_rnr_retry(7)
        .setup_max_read_atomic(0);
    Ok(pair.modify(&attribute)?)
}

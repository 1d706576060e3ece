//! The rules, by subject.

mod device_memory;
mod regions;
mod states;

use crate::pair::Pair;

/// One promise.
pub(crate) struct Rule {
    /// Its clause, or the section of the facts about verbs it stands in.
    pub(crate) id: &'static str,
    name: &'static str,
    /// Panics if the promise is not kept.
    pub(crate) run: fn(&mut Pair),
}

impl Rule {
    /// The promise.
    pub(crate) fn sentence(&self) -> String {
        self.name.replace('_', " ")
    }
}

macro_rules! rules {
    ($($id:literal $module:ident :: { $($name:ident),* $(,)? })*) => {
        vec![$($(Rule { id: $id, name: stringify!($name), run: $module::$name }),*),*]
    };
}

/// Every rule, in the order of its id.
pub(crate) fn all() -> Vec<Rule> {
    rules! {
        "DM-1" device_memory::{
            device_memory_is_given_by_length_and_alignment_and_is_zero,
            device_memory_of_no_bytes_or_more_than_there_is_is_refused,
        }
        "DM-2" device_memory::{ the_start_honours_the_alignment_so_that_atomics_may_target_it }
        "DM-3" device_memory::{ device_memory_ends_at_its_limit_and_freed_memory_is_there_again }
        "DM-4" device_memory::{
            copies_go_to_and_from_a_byte_offset,
            copies_out_of_range_are_refused_and_move_nothing,
        }
        "DM-5" device_memory::{ a_range_of_device_memory_registers_and_one_beyond_it_does_not }
        "DM-6" device_memory::{ a_region_of_device_memory_is_zero_based_and_serves_every_operation }
        "DM-7" device_memory::{ device_memory_with_a_region_cannot_go_and_loses_nothing }
        "5.1" regions::{
            remote_write_without_local_write_is_refused,
            unmapped_memory_cannot_be_registered,
            read_only_memory_is_refused_when_writing_is_asked_for,
            no_bytes_and_ranges_around_the_end_cannot_be_registered,
            a_local_key_is_no_remote_key,
            a_remote_key_is_no_local_key,
            a_made_up_key_is_refused,
            a_key_of_another_zone_is_refused_at_the_target,
            a_key_of_another_zone_is_refused_locally,
            a_key_of_another_zone_in_a_receive_fails_both_sides,
            a_range_beyond_before_or_around_the_region_is_refused,
            an_address_that_wraps_around_is_refused,
            a_local_range_beyond_the_region_is_refused,
            a_right_the_region_does_not_give_is_missed,
            what_is_received_or_read_needs_local_write,
            the_key_of_a_deregistered_region_is_stale_at_the_target,
            the_key_of_a_deregistered_region_is_stale_locally,
            a_receive_into_a_deregistered_region_fails_both_sides,
            an_operation_without_bytes_needs_no_key,
            a_region_is_addressed_from_its_own_base,
            regions_on_one_memory_have_rights_of_their_own,
            a_zone_in_use_cannot_go,
        }
        "7.2" states::{
            a_reliable_queue_pair_makes_exactly_the_moves_of_the_table,
            an_unreliable_queue_pair_makes_exactly_the_moves_of_the_table,
            a_datagram_queue_pair_makes_exactly_the_moves_of_the_table,
            a_value_out_of_range_is_refused_and_changes_nothing,
            packet_and_queue_pair_numbers_have_24_bits,
            a_path_without_a_gid_is_refused_on_ethernet,
            a_queue_pair_reset_and_connected_again_works_like_a_new_one,
        }
    }
}

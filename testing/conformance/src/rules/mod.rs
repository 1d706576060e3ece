//! The rules, by subject.

mod atomics;
mod coherence;
mod device_memory;
mod errors;
mod events;
mod extended;
mod flushes;
mod imports;
mod keys;
mod memory_windows;
mod order;
mod paging;
mod posting;
mod progress;
mod queues;
mod registration;
mod shared_receive;
mod states;
mod transfers;
mod unreliable;
mod windows;

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
        "LMR-4" coherence::{ a_region_shares_the_memory_of_another_with_rights_of_its_own }
        "LMR-13" coherence::{ a_shared_region_serves_its_own_zone_and_no_other }
        "LMR-14" coherence::{ the_key_of_a_shared_region_is_dead_with_it_though_the_memory_stays }
        "RMR-2" memory_windows::{
            a_window_leads_to_its_part_of_the_region,
            a_byte_beside_the_window_is_refused_though_its_region_has_it,
            a_type_1_window_serves_every_queue_pair_of_its_zone_and_no_other,
        }
        "RMR-4" memory_windows::{ an_unsignalled_bind_completes_in_silence }
        "RMR-5" memory_windows::{ what_is_posted_behind_a_bind_finds_it_done }
        "RMR-7" memory_windows::{ each_bind_gives_another_key_and_the_old_one_is_dead }
        "RMR-8" memory_windows::{ a_wrong_bind_fails_binds_nothing_and_leaves_the_old_key }
        "RMR-9" memory_windows::{
            a_window_gives_the_rights_it_was_bound_with_and_no_others,
            a_region_without_remote_rights_is_reached_through_a_window,
        }
        "RMR-10" memory_windows::{ a_window_never_bound_or_given_back_leads_nowhere }
        "RMR-12" memory_windows::{ a_bind_in_error_is_flushed_and_the_old_key_goes_on }
        "SYNC-2" coherence::{
            what_peers_write_is_shown_by_the_call_and_not_before,
            a_byte_has_one_shadow_through_all_regions_on_it,
        }
        "SYNC-3" coherence::{
            what_the_device_places_itself_is_seen_on_both_sides,
            what_the_device_reads_into_memory_is_seen_on_both_sides,
        }
        "SYNC-4" coherence::{
            atomics_and_immediate_writes_stay_unseen_until_they_are_shown,
            what_the_program_writes_is_seen_when_it_is_published_and_not_before,
        }
        "SYNC-6" coherence::{
            after_showing_a_write_the_program_writes_over_it_and_publishes,
            a_store_that_meets_a_write_without_a_call_costs_one_of_them,
        }
        "SYNC-8" coherence::{
            a_range_outside_shows_and_publishes_nothing,
            a_shadow_is_guarded_as_memory_is,
        }
        "4" imports::{
            requests_that_name_an_imported_region_move_its_owners_bytes,
            peers_reach_an_imported_region_by_the_key_it_has_where_it_was_imported,
            an_import_has_the_rights_of_its_owners_region_and_no_others,
            the_keys_of_an_import_serve_what_stands_for_its_zone_and_no_other,
            what_its_owner_takes_back_is_not_reached_through_an_import,
            when_a_region_is_taken_back_nobody_is_inside_it_any_more,
            what_is_done_with_an_import_leaves_all_to_its_owner,
            every_service_takes_an_import_as_memory_of_its_own,
            a_window_on_an_import_leads_to_its_owners_bytes,
            an_import_is_addressed_from_its_owners_base,
            two_sides_use_imports_of_each_others_and_both_take_back,
            a_handle_of_nothing_imports_nothing,
            a_region_that_only_its_owner_finds_is_not_imported,
            where_no_memory_of_others_is_reached_no_device_is_imported,
        }
        "5.1" registration::{
            remote_write_without_local_write_lets_peers_write_and_nobody_else,
            unmapped_memory_cannot_be_registered,
            read_only_memory_is_refused_when_writing_is_asked_for,
            ranges_around_the_end_cannot_be_registered,
            a_region_is_addressed_from_its_own_base,
            regions_on_one_memory_have_rights_of_their_own,
            a_zone_in_use_cannot_go,
            new_memory_is_never_taken_for_memory_that_went_before,
            new_memory_is_never_taken_for_memory_that_went_before_by_a_busy_peer,
        }
        "5.1" paging::{
            memory_on_demand_is_written_read_and_received_into,
            memory_on_demand_may_come_after_its_registration_and_go_before_its_end,
            an_atomic_on_memory_on_demand_is_refused_and_changes_nothing,
        }
        "5.1" keys::{
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
        }
        "5.3" imports::{ imported_device_memory_is_its_owners_until_that_frees_it }
        "5.4" memory_windows::{
            a_wrong_bind_of_type_2_fails_and_binds_nothing,
            a_type_2_window_is_bound_once_until_its_key_is_taken_out_of_use,
            a_type_2_window_serves_the_queue_pair_that_bound_it_and_no_other,
            before_rts_a_bind_is_held_and_nothing_is_bound,
            datagrams_know_no_windows_and_unreliable_connections_do,
            a_key_taken_out_of_use_by_its_owner_is_dead_and_the_window_free,
            a_key_of_others_cannot_be_taken_out_of_use_by_their_owner,
            a_send_takes_a_key_of_the_receiver_out_of_use,
            a_send_cannot_take_a_key_of_others_out_of_use_and_places_nothing,
            an_unreliable_send_takes_a_key_out_of_use_or_fails_its_receive,
            without_a_receive_the_key_stays_in_use,
            a_zero_based_window_counts_from_its_own_first_byte,
            a_windows_key_is_no_local_key,
            a_region_with_a_window_cannot_go_and_loses_nothing,
            a_zone_with_a_window_cannot_go,
            windows_come_and_go_without_end,
        }
        "6" queues::{
            a_queue_of_no_entries_too_many_or_an_unknown_vector_is_refused,
            a_queue_shrinks_no_further_than_to_what_it_holds_and_keeps_its_entries,
            polling_returns_no_more_than_asked_for,
            an_overrun_raises_an_event_ends_the_queue_and_its_queue_pairs,
            one_event_comes_each_time_a_queue_is_armed,
            a_queue_armed_for_solicited_events_ignores_others,
            a_failure_counts_as_solicited,
            what_is_in_use_cannot_be_destroyed,
            destroying_a_queue_waits_until_its_events_are_acknowledged,
            the_completions_of_a_destroyed_queue_pair_vanish,
            a_failed_request_is_reported_though_it_was_not_signalled,
            what_a_batch_takes_and_does_not_read_is_there_again_in_order,
            a_batch_gives_send_slots_back_and_a_second_one_goes_on_where_it_ended,
        }
        "7.1" posting::{
            sizes_above_the_limits_are_refused_and_sizes_given_are_at_least_those_asked_for,
            a_queue_pair_number_is_not_used_again_at_once,
        }
        "7.3" posting::{
            a_full_queue_takes_no_more_until_completions_are_polled,
            a_signalled_request_vouches_for_the_unsignalled_ones_before_it,
            too_many_pieces_and_too_many_inline_bytes_are_refused,
            of_a_list_everything_before_the_first_request_not_taken_is_posted,
            an_operation_the_service_does_not_have_is_refused,
            a_one_sided_request_of_datagrams_is_taken_and_fails,
            in_reset_nothing_is_taken,
            requests_of_init_and_rtr_are_held_until_their_time,
            in_error_requests_are_taken_and_flushed,
            inline_bytes_are_taken_during_the_call_and_need_no_key,
            completions_come_in_the_order_of_posting,
        }
        "7.3" flushes::{
            a_flush_ends_behind_the_writes_before_it_which_are_there_then,
            flushes_reads_and_writes_between_each_other_end_in_their_order,
            a_flush_that_was_not_allowed_is_refused_whatever_its_length,
            nothing_is_flushed_to_persistence,
        }
        "7.2" states::{
            a_reliable_queue_pair_makes_exactly_the_moves_of_the_table,
            each_end_of_an_extended_connection_makes_exactly_the_moves_of_the_table,
            an_unreliable_queue_pair_makes_exactly_the_moves_of_the_table,
            a_datagram_queue_pair_makes_exactly_the_moves_of_the_table,
            a_value_out_of_range_is_refused_and_changes_nothing,
            packet_and_queue_pair_numbers_have_24_bits_and_rnr_timers_five,
            a_path_without_a_gid_is_refused_on_ethernet,
            a_queue_pair_reset_and_connected_again_works_like_a_new_one,
        }
        "7.4" errors::{
            a_message_longer_than_the_port_takes_is_refused_locally,
            where_both_keys_are_wrong_a_read_or_atomic_blames_the_target_and_a_write_or_send_itself,
            a_write_with_immediate_to_a_bad_key_ends_the_due_receive_and_moves_nothing,
            a_receive_too_small_fails_both_sides_and_takes_no_byte,
            a_receive_with_a_bad_piece_fails_both_sides,
            an_operation_the_queue_pair_does_not_enable_is_an_invalid_request,
            a_misaligned_atomic_is_an_invalid_request_before_any_key_is_looked_at,
            an_atomic_whose_local_buffer_has_not_8_bytes_is_refused_locally,
            a_target_that_answers_no_reads_refuses_them,
            without_a_receive_the_sender_tries_again_as_often_as_it_was_told_and_waits_each_time,
            rnr_retry_7_tries_for_ever_until_a_receive_is_posted,
            without_an_answer_the_sender_gives_up_after_its_retries_and_timeouts,
            a_peer_in_reset_init_or_error_does_not_answer,
            a_peer_that_fails_in_the_middle_of_a_message_is_noticed,
            a_peer_that_becomes_ready_in_time_is_reached_by_a_retry,
            one_request_fails_with_its_cause_and_those_after_it_are_flushed_in_order,
            moving_to_error_flushes_what_was_posted,
            a_message_of_another_queue_pair_than_the_peer_is_not_taken,
        }
        "7.4" unreliable::{
            an_unreliable_message_without_a_receive_is_lost_in_silence,
            an_unreliable_message_longer_than_its_receive_is_lost_and_leaves_the_receive,
            an_unreliable_write_to_a_bad_key_or_range_is_lost_in_silence,
            an_unreliable_write_that_is_not_enabled_is_lost_in_silence,
            an_unreliable_connection_sends_and_writes,
            a_datagram_has_40_bytes_before_it_and_says_who_sent_it,
            a_datagram_with_a_wrong_key_is_counted_and_lost,
            a_datagram_without_room_or_receive_or_receiver_is_lost,
            a_datagram_longer_than_the_mtu_is_refused_locally,
            an_address_handle_of_another_zone_does_not_serve,
            an_address_handle_for_an_unknown_port_is_refused,
            a_local_failure_of_an_unreliable_connection_stops_only_its_send_queue,
            a_local_failure_of_a_datagram_queue_pair_stops_only_its_send_queue,
            a_datagram_queue_pair_hears_many_and_talks_to_many,
        }
        "7.4" transfers::{
            a_send_of_any_size_and_cut_arrives_byte_by_byte,
            a_write_of_any_size_cut_and_alignment_arrives_byte_by_byte,
            a_read_of_any_size_cut_and_alignment_arrives_byte_by_byte,
            a_write_with_immediate_uses_a_receive_and_puts_nothing_into_it,
            a_stream_of_messages_longer_than_the_ring_arrives_whole_and_in_order,
            both_sides_send_and_write_at_the_same_time,
            a_side_talks_to_itself,
        }
        "7.4" order::{
            a_fenced_request_sees_what_the_reads_before_it_brought,
            a_fenced_request_sees_the_result_of_the_atomic_before_it,
            a_read_sees_the_write_posted_before_it,
            a_message_arrives_after_the_writes_posted_before_it,
            who_sees_the_last_byte_of_a_write_sees_all_of_it,
            no_more_reads_are_under_way_than_both_sides_agreed,
            a_requester_that_may_have_no_reads_cannot_read,
            sends_wait_in_a_drained_queue_until_it_runs_again,
        }
        "7.4" atomics::{
            fetch_and_add_returns_the_old_value_and_wraps,
            compare_and_swap_swaps_only_what_it_expects,
            the_result_of_an_atomic_may_go_into_several_pieces,
            an_atomic_touches_its_eight_bytes_only,
            atomics_of_both_sides_and_of_the_owners_cpu_lose_nothing,
            atomics_of_both_sides_on_device_memory_lose_nothing,
        }
        "7.5" shared_receive::{
            several_queue_pairs_take_from_one_queue,
            a_shared_queue_has_a_limit_and_bounds,
            a_shared_queue_is_resized_with_its_receives_in_it_or_not_at_all,
            a_queue_pair_with_a_shared_queue_takes_no_receives_of_its_own,
            the_limit_event_comes_once_when_fewer_remain,
            receives_of_a_shared_queue_outlive_a_queue_pair_in_error,
            an_empty_shared_queue_makes_the_sender_wait,
            a_shared_queue_in_use_cannot_go_and_its_end_waits_for_its_events,
        }
        "7.5" extended::{
            a_message_goes_to_the_shared_queue_it_names_and_to_no_other,
            memory_is_judged_by_the_zone_of_the_queue_a_request_names,
            a_queue_that_is_not_in_the_domain_takes_nothing_whoever_has_it,
            a_sender_waits_for_a_receive_in_the_queue_it_names,
            a_domain_in_use_cannot_go,
            a_message_goes_to_a_queue_of_another_process_in_the_same_domain,
            memory_of_another_process_is_judged_by_the_zone_of_its_queue,
            a_sender_waits_for_a_receive_of_another_process,
        }
        "7.6" events::{
            the_first_message_of_a_queue_pair_in_rtr_is_announced_once,
            a_drained_send_queue_is_announced_where_that_was_asked_for,
            a_send_queue_is_not_drained_while_a_send_waits_for_a_receive,
            destroying_a_queue_pair_waits_until_its_events_are_acknowledged,
            an_event_nobody_took_goes_with_its_queue_pair,
            datagrams_establish_nothing,
            a_queue_pair_without_a_shared_queue_announces_no_last_receive,
        }
        "progress" progress::{
            a_target_that_only_computes_is_written_read_and_counted_on,
            a_receive_is_filled_while_its_program_computes,
            a_program_asleep_on_its_channel_is_woken,
            a_sender_asleep_on_its_channel_is_woken_by_the_answer,
            retries_go_on_while_nobody_polls,
            device_memory_is_reached_without_the_target,
            memory_the_program_shares_already_is_reached_without_the_target,
            adopted_memory_is_reached_without_the_target,
            private_memory_is_written_and_read_by_the_kernel_without_the_target,
            what_the_tier_cannot_reach_waits_for_the_target,
        }
        "SCIF-1" windows::{ a_window_shows_whole_pages_at_the_offset_that_is_answered }
        "SCIF-2" windows::{ what_is_not_whole_pages_and_what_is_no_memory_opens_no_window }
        "SCIF-3" windows::{
            a_fixed_window_is_exactly_where_it_was_asked_for,
            a_fixed_window_never_replaces_another_and_ends_below_2_to_the_62,
        }
        "SCIF-4" windows::{
            an_offset_nobody_fixed_is_the_lowest_place_from_2_to_the_62,
            an_offset_that_is_suggested_is_taken_or_the_next_free_place_above_it,
        }
        "SCIF-5" windows::{
            a_window_is_reached_by_both_reads_and_both_writes,
            a_mapped_window_is_the_memory_itself,
            memory_given_back_while_its_window_stands_is_not_used_again,
        }
        "SCIF-6" windows::{ one_page_stands_in_several_windows_of_several_endpoints }
        "SCIF-7" windows::{ a_window_keeps_its_pages_whatever_comes_to_their_addresses }
        "SCIF-8" windows::{ a_child_does_not_disturb_the_windows_of_its_parent }
        "SCIF-9" windows::{ what_a_window_does_not_allow_is_refused_and_moves_nothing }
        "SCIF-10" windows::{ every_other_refusal_opens_closes_and_moves_nothing }
    }
}

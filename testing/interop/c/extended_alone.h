// What one process sees of extended reliable connections by itself: part of `extended.c`.

#ifndef NONIC_INTEROP_EXTENDED_ALONE_H
#define NONIC_INTEROP_EXTENDED_ALONE_H

static void domains_are_known_by_their_files(struct node *n, struct receiver *r)
{
    struct ibv_context *second = open_device();
    struct ibv_xrcd *same, *own, *of_other;
    struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = file};
    CHECK_NULL("xrc", "a domain needs both members of its attributes", ibv_open_xrcd(n->context, &attr), EINVAL);
    attr.comp_mask = 7;
    CHECK_NULL("xrc", "and no others", ibv_open_xrcd(n->context, &attr), EOPNOTSUPP);
    CHECK_NULL("xrc", "a file without a domain has none unless it is to be made", open_domain(n->context, other_file, 0),
               EAGAIN);
    CHECK_NULL("xrc", "a descriptor that is not open names no file", open_domain(n->context, 1 << 20, O_CREAT), EBADF);
    CHECK_NULL("xrc", "a domain that exists is not made anew", open_domain(second, file, O_CREAT | O_EXCL), EINVAL);
    CHECK("xrc", "a second context opens the domain of the same file", (same = open_domain(second, file, 0)) != NULL);
    CHECK("xrc", "another file has another",
          (of_other = open_domain(second, other_file, O_CREAT | O_EXCL)) != NULL);
    CHECK("xrc", "and without a file a domain is nobody else's", (own = open_domain(second, -1, O_CREAT)) != NULL);
    REQUIRE(same && own && of_other);
    struct ibv_qp *target = make_target(r->domain);
    REQUIRE(target);
    CHECK_NULL("xrc", "a queue pair is not in another domain", open_target(of_other, target->qp_num), EINVAL);
    CHECK_NULL("xrc", "nor in a private one", open_target(own, target->qp_num), EINVAL);
    struct ibv_qp *opened = open_target(same, target->qp_num);
    CHECK("xrc", "but in the same one for whoever has it open", opened && opened->qp_num == target->qp_num &&
                                                                    opened->qp_context == &file);
    REQUIRE(opened);
    CHECK_EQ("xrc", "a domain in which one has a queue pair open is in use", ibv_close_xrcd(same), EBUSY);
    REQUIRE(ibv_destroy_qp(opened) == 0 && ibv_destroy_qp(target) == 0);
    CHECK_EQ("xrc", "and then it is not", ibv_close_xrcd(same), 0);
    REQUIRE(ibv_close_xrcd(own) == 0 && ibv_close_xrcd(of_other) == 0);
    CHECK_NULL("xrc", "the last to close a domain ends it", open_domain(second, other_file, 0), EAGAIN);
    CHECK_EQ("xrc", "the device closes", ibv_close_device(second), 0);
}

static void refusals_change_nothing(struct node *n, struct receiver *r)
{
    struct ibv_context *second = open_device();
    struct ibv_pd *other_pd = ibv_alloc_pd(second);
    REQUIRE(other_pd);
    struct ibv_srq_init_attr_ex attr = queue_attributes(n->pd, r->domain, r->cq[0]);
    attr.comp_mask &= ~(unsigned)IBV_SRQ_INIT_ATTR_XRCD;
    CHECK_NULL("xrc", "a shared receive queue needs a domain", ibv_create_srq_ex(n->context, &attr), EINVAL);
    attr = queue_attributes(n->pd, r->domain, r->cq[0]);
    attr.comp_mask &= ~(unsigned)IBV_SRQ_INIT_ATTR_CQ;
    CHECK_NULL("xrc", "and a completion queue", ibv_create_srq_ex(n->context, &attr), EINVAL);
    attr = queue_attributes(n->pd, r->domain, NULL);
    CHECK_NULL("xrc", "which exists", ibv_create_srq_ex(n->context, &attr), EINVAL);
    attr = queue_attributes(n->pd, NULL, r->cq[0]);
    CHECK_NULL("xrc", "and so does the domain", ibv_create_srq_ex(n->context, &attr), EINVAL);
    attr = queue_attributes(other_pd, r->domain, r->cq[0]);
    CHECK_NULL("xrc", "of one device context", ibv_create_srq_ex(second, &attr), EINVAL);
    attr = queue_attributes(n->pd, r->domain, r->cq[0]);
    attr.attr.max_wr = 0;
    CHECK_NULL("xrc", "and of some size", ibv_create_srq_ex(n->context, &attr), EINVAL);
    struct ibv_srq_init_attr basic = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *plain = ibv_create_srq(n->pd, &basic);
    uint32_t number = 7;
    REQUIRE(plain);
    CHECK_EQ("xrc", "a shared receive queue of no domain has no number", ibv_get_srq_num(plain, &number), EINVAL);
    CHECK_EQ("xrc", "and none is written", number, 7);
    REQUIRE(ibv_destroy_srq(plain) == 0);

    struct ibv_qp_init_attr old = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .qp_type = IBV_QPT_XRC_RECV, .cap = n->cap};
    CHECK_NULL("xrc", "a queue pair that receives is not in a protection domain", ibv_create_qp(n->pd, &old), EINVAL);
    struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = n->pd};
    CHECK_NULL("xrc", "whichever way it is asked for", ibv_create_qp_ex(n->context, &init), EINVAL);
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = r->domain;
    CHECK_NULL("xrc", "nor in a domain of another context", ibv_create_qp_ex(second, &init), EINVAL);
    init.qp_type = IBV_QPT_XRC_SEND;
    CHECK_NULL("xrc", "one that sends is in a protection domain", ibv_create_qp_ex(n->context, &init), EINVAL);
    old.qp_type = IBV_QPT_XRC_SEND;
    old.srq = r->srq[0];
    CHECK_NULL("xrc", "and has no shared receive queue", ibv_create_qp(n->pd, &old), EINVAL);
    old.srq = NULL;
    old.recv_cq = NULL;
    struct ibv_qp *sender = ibv_create_qp(n->pd, &old), *target = make_target(r->domain);
    CHECK("xrc", "one that sends needs no completion queue for receives, and has no receives",
          sender && old.cap.max_recv_wr == 0 && old.cap.max_send_wr >= n->cap.max_send_wr);
    REQUIRE(sender && target);
    struct node s = *n, t = *n;
    s.qp = sender;
    t.qp = target;
    REQUIRE(to_init(&s) == 0 && to_init(&t) == 0);
    CHECK_EQ("xrc", "one that sends takes no receive", post_receive(sender, 1, piece(n->buffer, 8, n->mr->lkey)), EINVAL);
    CHECK_EQ("xrc", "nor does one that receives", post_receive(target, 1, piece(n->buffer, 8, n->mr->lkey)), EINVAL);
    CHECK_EQ("xrc", "which takes no request either",
             post(target, 1, IBV_WR_SEND, piece(n->buffer, 8, n->mr->lkey), 0, 0), EINVAL);
    struct ibv_qp_attr known;
    struct ibv_qp_init_attr made;
    CHECK("xrc", "what is asked of one that receives names no queues",
          ibv_query_qp(target, &known, IBV_QP_STATE, &made) == 0 && !made.send_cq && !made.recv_cq && !made.srq &&
              made.qp_type == IBV_QPT_XRC_RECV && known.qp_state == IBV_QPS_INIT && known.cap.max_send_wr == 0);
    struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD, .qp_num = target->qp_num,
                                    .xrcd = r->domain, .qp_type = IBV_QPT_XRC_RECV};
    CHECK_NULL("xrc", "a queue pair is opened by number, domain and type", ibv_open_qp(n->context, &open), EINVAL);
    open.comp_mask = 0x1f;
    CHECK_NULL("xrc", "and nothing unknown", ibv_open_qp(n->context, &open), EOPNOTSUPP);
    open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    open.qp_type = IBV_QPT_RC;
    CHECK_NULL("xrc", "only one that receives is", ibv_open_qp(n->context, &open), EOPNOTSUPP);
    CHECK_NULL("xrc", "and one that sends is in no domain", open_target(r->domain, sender->qp_num), EINVAL);
    REQUIRE(ibv_destroy_qp(sender) == 0 && ibv_destroy_qp(target) == 0);
    REQUIRE(ibv_dealloc_pd(other_pd) == 0 && ibv_close_device(second) == 0);
}

static void several_have_a_queue_pair_open(struct node *n, struct receiver *r)
{
    struct ibv_context *second = open_device();
    struct ibv_xrcd *same = open_domain(second, file, 0);
    struct ibv_qp *target = make_target(r->domain), *opened = same ? open_target(same, target->qp_num) : NULL;
    REQUIRE(target && opened);
    struct node t = *n;
    t.qp = opened;
    REQUIRE(to_init(&t) == 0);
    CHECK_EQ("xrc", "whoever has a queue pair open moves it on for all", state_of(target), IBV_QPS_INIT);
    CHECK_EQ("xrc", "who created it gives it back", ibv_destroy_qp(target), 0);
    CHECK_EQ("xrc", "and it goes on for the other", state_of(opened), IBV_QPS_INIT);
    struct ibv_qp *third = open_target(r->domain, opened->qp_num);
    CHECK("xrc", "and can be opened again", third != NULL);
    // Its events come to all who have it open: a sender of this process names a queue that is not there.
    struct ibv_qp_init_attr attr = {.send_cq = n->send_cq, .qp_type = IBV_QPT_XRC_SEND, .cap = n->cap};
    struct ibv_qp *sender = ibv_create_qp(n->pd, &attr);
    REQUIRE(third && sender);
    struct node s = *n;
    s.qp = sender;
    struct card of_sender = card_of(&s), of_target = card_of(&t);
    REQUIRE(to_rtr(&t, &of_sender) == 0);
    REQUIRE(to_init(&s) == 0 && to_rtr(&s, &of_target) == 0 && to_rts(&s, of_sender.psn) == 0);
    drain_events(n->context);
    REQUIRE(post_to(&s, 0xfffffe, IBV_WR_SEND, 8, 0, 0) == 0);
    CHECK_EQ("xrc", "a queue that is not there is refused", next_completion(n->send_cq).status, IBV_WC_REM_ACCESS_ERR);
    struct ibv_async_event first = next_event(n->context), other = next_event(second);
    while (first.event_type == IBV_EVENT_COMM_EST)
        first = next_event(n->context);
    while (other.event_type == IBV_EVENT_COMM_EST)
        other = next_event(second);
    CHECK("xrc", "one who has it open is told as of its own", first.event_type == IBV_EVENT_QP_ACCESS_ERR &&
                                                                  first.element.qp == third);
    CHECK("xrc", "and so is the other", other.event_type == IBV_EVENT_QP_ACCESS_ERR && other.element.qp == opened);
    uint32_t number = opened->qp_num;
    REQUIRE(ibv_destroy_qp(sender) == 0 && ibv_destroy_qp(third) == 0);
    CHECK_EQ("xrc", "it is there as long as somebody has it open", state_of(opened), IBV_QPS_ERR);
    CHECK_EQ("xrc", "the last gives it back", ibv_destroy_qp(opened), 0);
    CHECK_NULL("xrc", "and it is gone", open_target(r->domain, number), EINVAL);
    REQUIRE(ibv_close_xrcd(same) == 0 && ibv_close_device(second) == 0);
}

#endif

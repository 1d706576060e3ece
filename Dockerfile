# nonic in an image, with programs that try it:
#
#   docker build -t nonic . && docker run --rm nonic
#   docker run --rm nonic run -- ibv_devinfo
#
# Images of one's own take the package from here: COPY --from=nonic-packages / /packages, after
# docker build -t nonic-packages --target packages .

FROM rust:1-bookworm AS builder
ARG SOURCE_DATE_EPOCH
WORKDIR /src
COPY . .
RUN apt-get update && apt-get install --yes --no-install-recommends binutils zstd && ci/package --output /packages deb tar

FROM scratch AS packages
COPY --from=builder /packages /

FROM debian:12-slim
ARG PROGRAMS="ibverbs-utils perftest"
RUN --mount=type=bind,from=builder,source=/packages,target=/packages \
    apt-get update && apt-get install --yes --no-install-recommends /packages/nonic_*.deb $PROGRAMS && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
USER 65534:65534
ENTRYPOINT ["nonic"]
CMD ["demo"]

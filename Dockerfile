# All that ./run.sh doctor asks for on Debian: docker build -t quire . && docker run --rm -it -v "$PWD":/quire quire ./run.sh
FROM debian:trixie
RUN apt-get update && apt-get install -y --no-install-recommends \
        gcc libc6-dev curl git ca-certificates qemu-system-x86 qemu-system-arm seabios qemu-system-data \
        xorriso ovmf qemu-efi-aarch64 \
        gdb-multiarch musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static busybox-static coq \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/root/.cargo/bin:$PATH
COPY rust-toolchain.toml /tmp/toolchain/
RUN curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain none \
    && cd /tmp/toolchain && rustup toolchain install
# The checkout belongs to whoever is outside.
RUN git config --system --add safe.directory /quire
WORKDIR /quire

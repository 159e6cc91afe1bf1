# Image of both operators: one static program, and nothing else.
#
#   docker buildx build --platform linux/amd64,linux/arm64 .
#
# The compiler always runs on the platform of the builder, so that no platform is emulated. image/build builds the same
# image without Docker, from the last stage of this file.
FROM --platform=$BUILDPLATFORM rust:1.95.0-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082 AS build
# Includes this stage in the image's SBOM, because its crates and C library are linked into the program.
ARG BUILDKIT_SBOM_SCAN_STAGE=true
WORKDIR /src
COPY . .
ARG TARGETARCH
# For the command `version`.
ARG REVISION=unknown
RUN KUBEVIRT_OPERATOR_COMMIT="$REVISION" image/binary "$TARGETARCH" /kubevirt-operator

FROM scratch
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kubevirt-operator" \
      org.opencontainers.image.description="Takes a bare Kubernetes cluster to running virtual machines" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/vitistack/kubevirt-operator" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /kubevirt-operator /kubevirt-operator
# By number: there is no /etc/passwd, and runAsNonRoot needs a number.
USER 65532:65532
ENTRYPOINT ["/kubevirt-operator"]
CMD ["run"]

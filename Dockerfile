# The same set-up as everywhere else, on a bare Debian 12, or on what is named:
#
#   docker build --build-arg BASE=ubuntu:24.04 -t tilewright .
ARG BASE=debian:12
FROM $BASE
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates git
WORKDIR /tilewright
COPY . .
RUN tools/setup.sh dev && make build
ENTRYPOINT ["build/release/tilewright"]
CMD ["--help"]

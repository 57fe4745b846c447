# The same set-up as everywhere else, on a bare Debian 12.
FROM debian:12
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates git
WORKDIR /tilewright
COPY . .
RUN tools/setup.sh dev && make build
ENTRYPOINT ["build/release/tilewright"]
CMD ["--help"]

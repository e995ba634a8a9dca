// A server of one text over HTTP, for Prometheus to read. Cold. One thread; every request and every
// connection is bounded, and nothing that comes in is kept.
#pragma once

#include <functional>
#include <string>

namespace memo::cli {

struct Address {
  std::string host;  // digits of IPv4 or IPv6
  std::string port;
};

// "9464", "127.0.0.1:9464" or "[::1]:9464"; without a host it is the loopback's. False for other texts.
bool parse_address(const std::string& text, Address& address);

// Answers GET and HEAD of / and /metrics with `text()` until SIGINT or SIGTERM. Tells on stderr where it
// listens. The exit code; an address that cannot be had is bad input.
int serve_metrics(const Address& address, const std::function<std::string()>& text);

}  // namespace memo::cli

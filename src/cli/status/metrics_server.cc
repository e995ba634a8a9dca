#include "src/cli/status/metrics_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "src/base/os.h"
#include "src/cli/base/command.h"

namespace memo::cli {
namespace {

constexpr std::size_t kMaxConnections = 16;
constexpr std::size_t kMaxRequest = 8192;  // bytes, of a request's head
// Of a connection, from its first byte to its last.
constexpr Nanos kConnectionTime = 5 * os::kSecond;

volatile sig_atomic_t ended = 0;

// One request and its answer.
struct Connection {
  int file = -1;
  Nanos until;
  std::string request;
  std::string answer;
  std::size_t sent = 0;
  // All is sent; what still comes is read and forgotten, so that the answer arrives.
  bool answered = false;
};

std::string response(std::string_view status, std::string_view type, const std::string& body,
                     bool with_body) {
  std::string text = "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
                     "\r\nContent-Length: " + std::to_string(body.size()) +
                     "\r\nConnection: close\r\n\r\n";
  return with_body ? text + body : text;
}

std::string refusal(std::string_view status) {
  return response(status, "text/plain; charset=utf-8", std::string(status) + "\n", true);
}

// The answer to a request whose head is whole, given its first line.
std::string answer_to(std::string_view line, const std::function<std::string()>& text) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last ||
      !line.substr(last + 1).starts_with("HTTP/1.")) {
    return refusal("400 Bad Request");
  }
  const std::string_view method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, last - first - 1);
  target = target.substr(0, target.find('?'));
  if (method != "GET" && method != "HEAD") {
    return refusal("405 Method Not Allowed");
  }
  if (target != "/" && target != "/metrics") {
    return refusal("404 Not Found");
  }
  return response("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text(),
                  method == "GET");
}

// Reads what has come; false if the connection is to be closed.
bool receive(Connection& connection, const std::function<std::string()>& text) {
  char buffer[4096];
  const ssize_t count = recv(connection.file, buffer, sizeof buffer, MSG_DONTWAIT);
  if (count <= 0) {
    return count < 0 && (errno == EAGAIN || errno == EINTR);
  }
  if (connection.answered) {
    return true;
  }
  connection.request.append(buffer, static_cast<std::size_t>(count));
  const std::string_view request = connection.request;
  const std::size_t line_end = request.find('\n');
  const bool whole = request.find("\r\n\r\n") != std::string_view::npos ||
                     request.find("\n\n") != std::string_view::npos;
  if (whole) {
    std::string_view line = request.substr(0, line_end);
    line = line.substr(0, line.find('\r'));
    connection.answer = answer_to(line, text);
  } else if (request.size() > kMaxRequest) {
    connection.answer = refusal("431 Request Header Fields Too Large");
  }
  return true;
}

// Sends what there is to send; false if the connection is to be closed.
bool deliver(Connection& connection) {
  const std::string& answer = connection.answer;
  const ssize_t count = send(connection.file, answer.data() + connection.sent,
                             answer.size() - connection.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  connection.sent += static_cast<std::size_t>(count);
  if (connection.sent == answer.size()) {
    connection.answered = true;
    shutdown(connection.file, SHUT_WR);
  }
  return true;
}

class Server {
 public:
  Server(int listener, const std::function<std::string()>& text)
      : listener_(listener), text_(text) {}
  ~Server() {
    for (const Connection& connection : connections_) {
      close(connection.file);
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Waits for one or more events, at most a second, and does what they ask for.
  void turn(const sigset_t& signals) {
    std::vector<pollfd> files;
    for (const Connection& connection : connections_) {
      const bool sends = !connection.answer.empty() && !connection.answered;
      files.push_back({connection.file, static_cast<short>(sends ? POLLOUT : POLLIN), 0});
    }
    const bool accepts = connections_.size() < kMaxConnections;
    files.push_back({listener_, static_cast<short>(accepts ? POLLIN : 0), 0});
    const timespec second{1, 0};
    if (ppoll(files.data(), files.size(), &second, &signals) < 0) {
      return;
    }
    const Nanos now = os::nanoseconds();
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = connections_[i];
      const short events = files[i].revents;
      const bool good = (events & POLLOUT) != 0  ? deliver(connection)
                        : (events & POLLIN) != 0 ? receive(connection, text_)
                                                 : events == 0;
      if (!good || now > connection.until) {
        close(connection.file);
        connection.file = -1;
      }
    }
    std::erase_if(connections_, [](const Connection& connection) { return connection.file < 0; });
    if ((files.back().revents & POLLIN) != 0) {
      accept_one(now);
    }
  }

 private:
  void accept_one(Nanos now) {
    const int file = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file >= 0) {
      Connection& connection = connections_.emplace_back();
      connection.file = file;
      connection.until = now + kConnectionTime;
    }
  }

  int listener_;
  const std::function<std::string()>& text_;
  std::vector<Connection> connections_;
};

// A socket that listens at the address; -1, with a complaint, where there is none to be had.
int listen_at(const Address& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (error != 0) {
    std::fprintf(stderr, "memomalloc status: '%s' port %s: %s\n", address.host.c_str(),
                 address.port.c_str(), gai_strerror(error));
    return -1;
  }
  const int yes = 1;
  const int file = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool good =
      file >= 0 && setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      bind(file, found->ai_addr, found->ai_addrlen) == 0 && listen(file, SOMAXCONN) == 0;
  const int reason = errno;
  freeaddrinfo(found);
  if (!good) {
    std::fprintf(stderr, "memomalloc status: cannot listen at %s port %s: %s\n",
                 address.host.c_str(), address.port.c_str(), std::strerror(reason));
    if (file >= 0) {
      close(file);
    }
    return -1;
  }
  return file;
}

// The port that the system chose for 0, or that was asked for.
unsigned port_of(int file) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  getsockname(file, reinterpret_cast<sockaddr*>(&name), &size);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(name).sin_port);
}

}  // namespace

bool parse_address(const std::string& text, Address& address) {
  const std::size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return false;
  }
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  in6_addr parsed{};
  const bool good = !port.empty() && port.size() <= 5 &&
                    port.find_first_not_of("0123456789") == std::string::npos &&
                    std::stoi(port) <= UINT16_MAX &&
                    (inet_pton(AF_INET, host.c_str(), &parsed) == 1 ||
                     inet_pton(AF_INET6, host.c_str(), &parsed) == 1);
  address = {host, port};
  return good;
}

int serve_metrics(const Address& address, const std::function<std::string()>& text) {
  const int listener = listen_at(address);
  if (listener < 0) {
    return kBadInput;
  }
  // The two signals come only while the server waits.
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGTERM}) {
    sigaddset(&blocked, number);
    struct sigaction end{};
    end.sa_handler = [](int) { ended = 1; };
    sigaction(number, &end, nullptr);
  }
  sigprocmask(SIG_BLOCK, &blocked, &before);
  const bool six = address.host.find(':') != std::string::npos;
  std::fprintf(stderr, "listening at http://%s%s%s:%u/metrics\n", six ? "[" : "",
               address.host.c_str(), six ? "]" : "", port_of(listener));
  {
    Server server(listener, text);
    while (ended == 0) {
      server.turn(before);
    }
  }
  close(listener);
  return kDone;
}

}  // namespace memo::cli

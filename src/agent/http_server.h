// HttpServer: HTTP on a local socket (with the caller's uid) or on a TCP address, by libevent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

struct event_base;

namespace rung {

struct HttpRequest {
  bool post = false;
  std::string path;                          // decoded, without the query
  std::map<std::string, std::string> query;  // decoded
  std::optional<std::uint32_t> uid;          // of the caller; only on a local socket
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::optional<int> exit_code;  // what the command line should exit with
};

using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

class HttpServer {
 public:
  // Listens on a local socket that everybody may connect to: who may see what is the handler's
  // decision, by uid. A stale socket file is replaced, a live one is kUnavailable.
  static Result<std::unique_ptr<HttpServer>> local(event_base* base, const std::string& path,
                                                   HttpHandler handler);
  // Listens on "address:port", numeric.
  static Result<std::unique_ptr<HttpServer>> tcp(event_base* base, const std::string& listen,
                                                 HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rung

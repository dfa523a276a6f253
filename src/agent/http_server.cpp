#include "agent/http_server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/strings.h"

namespace rung {
namespace {

// A caller that sends or reads nothing for this long is dropped.
constexpr int kIdleSeconds = 15;
constexpr ev_ssize_t kMaxHeaderBytes = 16384;
constexpr ev_ssize_t kMaxBodyBytes = 16384;
constexpr int kBacklog = 64;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

bool answers(const std::string& path) {
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  return probe.valid() &&
         ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Makes way for a new socket at `path`: removes a dead one, refuses everything else.
Result<void> clear_the_way(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return fail(ErrorCode::kUnavailable, path + " exists and is no socket",
                "choose another path with the key 'socket'");
  }
  if (answers(path)) {
    return fail(ErrorCode::kUnavailable, "another agent answers on " + path,
                "stop it, or give this one another 'socket' in its config");
  }
  if (::unlink(path.c_str()) != 0)
    return fail_errno(errno, "cannot remove the stale socket " + path);
  return {};
}

Result<Fd> listen_on(const std::string& path) {
  if (const auto clear = clear_the_way(path); !clear) return tl::unexpected<Error>(clear.error());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail_errno(errno, "cannot make a socket");
  const sockaddr_un address = address_of(path);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail_errno(errno, "cannot listen on " + path,
                      "the folder must exist and be writable; see the key 'socket'");
  }
  if (::chmod(path.c_str(), 0666) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return fail_errno(errno, "cannot listen on " + path);
  }
  return fd;
}

std::optional<std::uint32_t> peer_uid(evhttp_request* request) {
  evhttp_connection* connection = evhttp_request_get_connection(request);
  bufferevent* stream =
      connection == nullptr ? nullptr : evhttp_connection_get_bufferevent(connection);
  if (stream == nullptr) return std::nullopt;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  const int fd = bufferevent_getfd(stream);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return credentials.uid;
}

HttpRequest decode(evhttp_request* request) {
  HttpRequest out;
  out.post = evhttp_request_get_command(request) == EVHTTP_REQ_POST;
  const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
  const char* path = uri == nullptr ? nullptr : evhttp_uri_get_path(uri);
  if (path != nullptr) out.path = path;
  const char* query = uri == nullptr ? nullptr : evhttp_uri_get_query(uri);
  evkeyvalq fields{};
  if (query != nullptr && evhttp_parse_query_str(query, &fields) == 0) {
    for (const evkeyval* field = fields.tqh_first; field != nullptr; field = field->next.tqe_next) {
      out.query[field->key] = field->value;
    }
    evhttp_clear_headers(&fields);
  }
  return out;
}

}  // namespace

struct HttpServer::Impl {
  evhttp* http = nullptr;
  HttpHandler handler;
  std::string socket_path;  // to remove at the end; "" for TCP

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (http != nullptr) evhttp_free(http);
    if (!socket_path.empty()) ::unlink(socket_path.c_str());
  }

  bool make(event_base* base) {
    http = evhttp_new(base);
    if (http == nullptr) return false;
    evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_POST);
    evhttp_set_timeout(http, kIdleSeconds);
    evhttp_set_max_headers_size(http, kMaxHeaderBytes);
    evhttp_set_max_body_size(http, kMaxBodyBytes);
    evhttp_set_gencb(http, &Impl::on_request, this);
    return true;
  }

  static void on_request(evhttp_request* request, void* self_pointer) {
    Impl& self = *static_cast<Impl*>(self_pointer);
    HttpRequest decoded = decode(request);
    if (!self.socket_path.empty()) decoded.uid = peer_uid(request);
    const HttpReply reply = self.handler(decoded);
    evkeyvalq* headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Content-Type", reply.content_type.c_str());
    evhttp_add_header(headers, "Connection", "close");
    if (reply.exit_code) {
      evhttp_add_header(headers, "X-Rung-Exit-Code", std::to_string(*reply.exit_code).c_str());
    }
    evbuffer* body = evbuffer_new();
    if (body != nullptr) evbuffer_add(body, reply.body.data(), reply.body.size());
    evhttp_send_reply(request, reply.status, nullptr, body);
    if (body != nullptr) evbuffer_free(body);
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::local(event_base* base, const std::string& path,
                                                      HttpHandler handler) {
  Result<Fd> listening = listen_on(path);
  if (!listening) return tl::unexpected<Error>(listening.error());
  auto impl = std::make_unique<Impl>();
  impl->handler = std::move(handler);
  impl->socket_path = path;
  if (!impl->make(base) || evhttp_accept_socket(impl->http, listening->get()) != 0) {
    return fail(ErrorCode::kInternal, "cannot serve HTTP on " + path);
  }
  (void)listening->release();  // evhttp closes it
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

Result<std::unique_ptr<HttpServer>> HttpServer::tcp(event_base* base, const std::string& listen,
                                                    HttpHandler handler) {
  const std::size_t colon = listen.rfind(':');
  const auto port = colon == std::string::npos
                        ? std::nullopt
                        : parse_number<std::uint16_t>(std::string_view(listen).substr(colon + 1));
  if (!port) {
    return fail(ErrorCode::kBadInput, fmt::format("'{}' is no address with a port", listen),
                "for example 127.0.0.1:9478");
  }
  auto impl = std::make_unique<Impl>();
  impl->handler = std::move(handler);
  if (!impl->make(base)) return fail(ErrorCode::kInternal, "cannot serve HTTP");
  if (evhttp_bind_socket(impl->http, listen.substr(0, colon).c_str(), *port) != 0) {
    return fail_errno(errno, "cannot listen on " + listen,
                      "is another process there? see the key 'prometheus_listen'");
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace rung

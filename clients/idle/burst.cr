# burst.cr: an HTTP server whose answer to one request takes much memory for a moment.
#
# Built without -Dpreview_mt, as most servers are: one thread, which waits in epoll_wait between two requests.

require "http/server"

server = HTTP::Server.new do |context|
  count = context.request.path == "/burst" ? 1_000_000 : 10
  lines = Array.new(count) { |number| "line #{number} of the answer" }
  context.response.print lines.sum(&.size)
end
puts server.bind_tcp("127.0.0.1", 0).port
STDOUT.flush
server.listen

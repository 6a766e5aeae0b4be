# server.cr REQUESTS CLIENTS: an HTTP server and its clients, in one process.
#
# Built with -Dpreview_mt: every allocation is made by a fiber, on a stack that
# is named to the collector only when a collection asks, and the runtime needs
# tables of floating-point numbers before its callbacks can be called.

require "http/client"
require "http/server"
require "json"

requests, clients = ARGV.map(&.to_i)
server = HTTP::Server.new do |context|
  context.response.print(JSON.build do |json|
    json.object { 20.times { |number| json.field "key#{number}", "value#{number}" } }
  end)
end
address = server.bind_tcp "127.0.0.1", 0
spawn { server.listen }

sums = Channel(Int32).new
clients.times do
  spawn do
    client = HTTP::Client.new("127.0.0.1", address.port)
    sum = 0
    (requests // clients).times { sum += JSON.parse(client.get("/").body).as_h.size }
    sums.send sum
  end
end
puts (0...clients).sum { sums.receive }

# parallel.cr FIBERS DEPTH ROUNDS: fibers that build trees, on several threads.
#
# Built with -Dpreview_mt: a fiber goes on in whatever thread has time, and its
# stack is named to the collector when a collection begins. Each fiber keeps
# one tree in its frames all the time.

class Node
  property left : Node?, right : Node?

  def initialize(@left = nil, @right = nil)
  end

  def count : Int32
    left, right = @left, @right
    left && right ? 1 + left.count + right.count : 1
  end
end

def grow(depth) : Node
  depth == 0 ? Node.new : Node.new(grow(depth - 1), grow(depth - 1))
end

fibers, depth, rounds = ARGV.map(&.to_i)
results = Channel(Int32).new
fibers.times do
  spawn do
    kept = grow(depth)
    sum = 0
    rounds.times do
      sum += grow(depth - 2).count
      Fiber.yield
    end
    raise "a kept tree lost nodes" unless kept.count == (2 << depth) - 1
    results.send sum
  end
end
total = 0
fibers.times { total += results.receive }
puts total

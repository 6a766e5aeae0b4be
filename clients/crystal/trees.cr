# trees HEIGHT: complete binary trees that come and go beside one that stays.

class Node
  getter left : Node?
  getter right : Node?

  def initialize(@left = nil, @right = nil)
  end

  def self.of(height : Int32) : Node
    height == 0 ? Node.new : Node.new(of(height - 1), of(height - 1))
  end

  def size : Int32
    if (left = @left) && (right = @right)
      1 + left.size + right.size
    else
      1
    end
  end
end

greatest = ARGV[0].to_i
stays = Node.of(greatest)
4.step(to: greatest, by: 2) do |height|
  count = 1 << (greatest - height + 4)
  total = 0_i64
  count.times { total += Node.of(height).size }
  puts "#{count} trees of height #{height}: #{total}"
end
puts "the tree that stays: #{stays.size}"
